"""Solvers with Newton's own interface."""

from __future__ import annotations

from collections.abc import Set

import newton
import warp as wp
from newton import ModelFlags
from newton.solvers import SolverBase

from lab_core.config import check_kinds, parameter_types
from lab_core.errors import ConfigError
from lab_newton.arrays import present
from lab_newton.config import NewtonSolverCfg
from lab_newton.solver import Solver


class WrappedSolver(Solver):
    """A ``newton.solvers.SolverBase`` with what it needs around it.

    Args:
        solver: The solver itself.
        collisions: Finds its contacts; None: nobody does, or the solver itself.
    """

    changeable = int(ModelFlags.ALL)
    feels_wrenches = True

    def __init__(self, solver: SolverBase, collisions: newton.CollisionPipeline | None) -> None:
        self.inner = solver
        self.name = type(solver).__name__
        self.reads_bodies = collisions is not None
        self._collisions = collisions
        self._contacts = None if collisions is None else collisions.contacts()

    def collide(self, state: newton.State) -> None:
        if self._collisions is not None and self._contacts is not None:
            self._collisions.collide(state, self._contacts)

    def reset(self, state: newton.State, mask: wp.array) -> None:
        self.inner.reset(state, world_mask=mask, flags=0)

    def notify(self, flags: int) -> None:
        self.inner.notify_model_changed(flags)

    def observe(self, kinds: Set[str]) -> None:
        super().observe(kinds - self.inner.supported_observables)
        self.observables = self.inner.observables(kinds) if kinds else None


class NamedSolver(WrappedSolver):
    """The solver class of a :class:`~lab_newton.NewtonSolverCfg`, with a second state for its steps to end in."""

    def __init__(self, cfg: NewtonSolverCfg, model: newton.Model) -> None:
        """
        Raises:
            ConfigError: the class is unknown, or it refuses its options.
        """
        solver_class = cfg.find_class()
        try:
            check_kinds(cfg.options, "", parameter_types(solver_class.__init__))
            solver = solver_class(model, **cfg.options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"physics.solver.options of {solver_class.__name__}: {error}.") from error
        super().__init__(solver, newton.CollisionPipeline(model) if cfg.contacts else None)
        self._model = model
        self._next = model.state()
        self._steps_bodies = cfg.coordinates == "body"
        self.reads_bodies = self.reads_bodies or self._steps_bodies

    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        wp.copy(
            present(self._next.body_f), present(state.body_f)
        )  # solvers may add contact forces to those of the old state
        observables = self.observables if observed else None
        self.inner.step(state, self._next, control, self._contacts, dt, observables=observables)
        if self._steps_bodies:
            newton.eval_ik(self._model, self._next, present(self._next.joint_q), present(self._next.joint_qd))
        state.assign(self._next)
