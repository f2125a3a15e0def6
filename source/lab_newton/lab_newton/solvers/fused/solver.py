"""A step of MuJoCo Warp whose constraints are solved in one kernel."""

from __future__ import annotations

import mujoco_warp
import warp as wp
from mujoco_warp import ConeType, Data, DisableBit, EnableBit, IntegratorType, Model, SolverType
from newton.solvers import SolverMuJoCo

from lab_newton.solvers.fused.newton_kernels import solve_kernel
from lab_newton.solvers.fused.problem_kernels import problem, solution, work
from lab_newton.solvers.fused.tree_kernels import add_forces, compute_tree
from lab_newton.solvers.fused.tree_state_kernels import forces, motion, tree

_INTEGRATORS = {
    IntegratorType.EULER: mujoco_warp.euler,
    IntegratorType.IMPLICIT: mujoco_warp.implicit,
    IntegratorType.IMPLICITFAST: mujoco_warp.implicit,
}
_MOST_DOFS = 60
"""MuJoCo Warp takes no dense matrices beyond."""


def fits(num_dofs: int) -> bool:
    """Returns whether a model of so many degrees of freedom is small enough for the kernel."""
    return num_dofs <= _MOST_DOFS


def unsupported(m: Model, d: Data) -> str | None:
    """Returns why the constraints of a model cannot be solved in one kernel; None: they can."""
    if not m.nv or not d.njmax:
        return "nothing is constrained"
    for holds, reason in (
        (m.opt.solver == SolverType.NEWTON, "it has only Newton's method"),
        (m.opt.integrator in _INTEGRATORS, "it has no Runge-Kutta integrator"),
        (not m.is_sparse, "the Jacobian is sparse"),
        (fits(m.nv), f"{m.nv} degrees of freedom, more than {_MOST_DOFS}"),
        (not m.nflex, "flexible bodies"),
        (not m.nsensordata, "sensors of MuJoCo's own"),
        (not m.opt.enableflags & (EnableBit.SLEEP | EnableBit.ENERGY), "sleep or energy"),
        (not m.opt.noslip_iterations, "noslip iterations"),
    ):
        if not holds:
            return reason
    return None


class FusedSolve:
    """Solves the constraints of all environments in one launch.

    Args:
        m, d: MuJoCo Warp's model and data, of which :func:`unsupported` finds nothing to say.
    """

    def __init__(self, m: Model, d: Data) -> None:
        device = d.qacc.device
        cones = m.opt.cone == ConeType.ELLIPTIC
        self._num_worlds = d.nworld
        self._problem, self._solution = problem(m, d), solution(d)
        self._work = work(d.nworld, m.nv, d.njmax, cones, device)
        warm = int(not m.opt.disableflags & DisableBit.WARMSTART)
        self._settings = (m.nv, warm, m.opt.iterations, m.opt.ls_iterations)
        self._kernel = solve_kernel(cones)
        self._block_dim = (32 if m.nv < 32 else 64) if device.is_cuda else 1
        self._device = device

    def __call__(self) -> None:
        wp.launch_tiled(
            self._kernel,
            dim=[self._num_worlds],
            inputs=[self._problem, self._solution, self._work, *self._settings],
            block_dim=self._block_dim,
            device=self._device,
        )


class FusedTree:
    """Computes inertias, velocities and bias forces of all environments in one launch, and adds up forces in another.

    In place of ``com_pos``, ``crb``, ``com_vel`` and ``rne``, of which a launch per level of the tree remains else.
    """

    def __init__(self, m: Model, d: Data) -> None:
        self._num_worlds, self._num_dofs, self._device = d.nworld, m.nv, d.qacc.device
        self._tree, self._motion, self._forces = tree(m), motion(d), forces(d)
        self._block_dim = 32 if self._device.is_cuda else 1

    def __call__(self) -> None:
        wp.launch_tiled(
            compute_tree,
            dim=[self._num_worlds],
            inputs=[self._tree, self._motion],
            block_dim=self._block_dim,
            device=self._device,
        )

    def add_forces(self) -> None:
        """Sums the forces of the joints and on the bodies, once all are known."""
        dim = (self._num_worlds, self._num_dofs)
        wp.launch(add_forces, dim=dim, inputs=[self._tree, self._motion, self._forces], device=self._device)


class FusedSolverMuJoCo(SolverMuJoCo):
    """Newton's solver, which steps MuJoCo Warp by its public stages and the classes above."""

    fused: FusedSolve | None = None

    def fuse(self) -> None:
        """Solves constraints in one kernel from now on, and computes what comes before it in another where it can."""
        m, d = self.mjw_model, self.mjw_data
        self.fused, self._tree = FusedSolve(m, d), FusedTree(m, d)
        self._has_tendons_or_actuators = bool(m.nactuator or m.ntendon)

    def _mujoco_warp_step(self) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        # The one private method of Newton's that is overridden: it calls mujoco_warp.step.
        if self.fused is None:
            super()._mujoco_warp_step()
            return
        m, d = self.mjw_model, self.mjw_data
        if self._has_tendons_or_actuators:  # whose velocities and inertias come between
            mujoco_warp.fwd_position(m, d, factorize=False)
            mujoco_warp.fwd_velocity(m, d)
        else:
            mujoco_warp.kinematics(m, d)
            mujoco_warp.camlight(m, d)
            self._tree()
            if m.opt.run_collision_detection:
                mujoco_warp.collision(m, d)
            mujoco_warp.make_constraint(m, d)
            mujoco_warp.passive(m, d)
        mujoco_warp.fwd_actuation(m, d)
        self._tree.add_forces()
        self.fused()
        if m.opt.run_rne_postconstraint:
            mujoco_warp.rne_postconstraint(m, d)
        _INTEGRATORS[m.opt.integrator](m, d)
