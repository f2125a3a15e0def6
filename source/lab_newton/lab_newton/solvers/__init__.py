"""What advances the physics: the interface of solvers, MuJoCo Warp, and others with Newton's own interface."""

from lab_newton.solver import ContactForces, Solver
from lab_newton.solvers.constraint_problem import ConstraintProblem, constraint_problems
from lab_newton.solvers.named import WrappedSolver

__all__ = ["ConstraintProblem", "ContactForces", "Solver", "WrappedSolver", "constraint_problems"]
