"""MuJoCo Warp."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import ClassVar

import mujoco_warp
import newton
import numpy as np
import torch
import warp as wp
from mujoco_warp import DisableBit, OverflowType

from lab_core.errors import ConfigError
from lab_newton.arrays import present
from lab_newton.config import MuJoCoSolverCfg, TerrainShape
from lab_newton.robot_files import ImportedFile
from lab_newton.robot_files.matching import Matching
from lab_newton.robot_files.verification import verify
from lab_newton.solver import ContactForces
from lab_newton.solvers import mujoco_kernels as kernels
from lab_newton.solvers.fused import FusedSolverMuJoCo, fits, unsupported
from lab_newton.solvers.named import WrappedSolver
from lab_newton.solvers.sizes import estimate_sizes


class MuJoCoSolver(WrappedSolver):
    """MuJoCo Warp, with its own collisions or Newton's.

    What overflows is kept on the device, every bit and the largest needs, until it is read.
    """

    inner: _Solver

    def __init__(
        self, cfg: MuJoCoSolverCfg, model: newton.Model, deterministic: bool, terrain: TerrainShape | None
    ) -> None:
        """Makes the solver for ``model``, which holds generated terrain of the shape ``terrain``, if any.

        ``deterministic`` repeats on a GPU, about 16 times slower: MuJoCo Warp then adds up in a fixed order, and
        Newton's collision pipeline finds the contacts, sorted, unless ``cfg`` asks for MuJoCo Warp's.
        Not yet in a fixed order: rows of constraints, which MuJoCo Warp does not sort, and Newton's contacts on their
        way to it. Both are counted up by threads, so runs with many contacts in many worlds may still differ.

        Raises:
            ConfigError: it cannot collide with the terrain.
        """
        by_newton = collides_by_newton(cfg, terrain, sorts=deterministic and model.device.is_cuda)
        solver = _make(cfg, model, deterministic, by_newton)
        data = solver.mjw_data
        collisions = None
        if by_newton:
            collisions = newton.CollisionPipeline(model, rigid_contact_max=data.naconmax, deterministic=deterministic)
        super().__init__(solver, collisions)
        self.name = "MuJoCo Warp" + _fuse(cfg, solver)
        self.strict_capacity = cfg.strict_capacity
        self._device = model.device
        self._num_worlds = data.nworld
        self._candidates = data.ncollision if self._contacts is None else self._contacts.rigid_contact_count
        """(1,) contacts that were found, more than fit into the pool if it is too small."""
        self._contact_forces: ContactForces | None = None
        with wp.ScopedDevice(model.device):
            self._latched = wp.zeros(data.nworld, dtype=wp.int32)
            self._peak_rows = wp.zeros(data.nworld, dtype=wp.int32)
            self._peak_contacts = wp.zeros(1, dtype=wp.int32)

    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        observables = self.observables if observed else None
        # MuJoCo Warp would go on to compute the observables of the bodies in every step.
        self.inner.mjw_model.opt.run_rne_postconstraint = observables is not None
        self.inner.step(state, state, control, self._contacts, dt, observables=observables)
        data = self.inner.mjw_data
        if self._contact_forces is not None:
            with wp.ScopedDevice(self._device):
                mujoco_warp.contact_force(
                    self.inner.mjw_model, data, self._contact_ids, True, self._contact_forces.force
                )
        wp.launch(
            kernels.latch_overflow,
            dim=self._num_worlds,
            inputs=[data.overflow, data.nefc, data.nacon, self._candidates],
            outputs=[self._latched, self._peak_rows, self._peak_contacts],
            device=self._device,
        )

    def check_files(self, files: Mapping[str, ImportedFile], self_collision: Mapping[str, bool]) -> None:
        matchings = [Matching(self.inner, one) for one in files.values() if one.file is not None]
        self.inner.mark_sliding_bodies([body for matching in matchings for body in matching.bodies_on_slides()])
        verify(self.inner, files, self_collision)
        for name, one in files.items():
            if self._collisions is not None and one.file is not None and one.file.model.npair:
                raise ConfigError(
                    f"Entity {name!r}: {str(one.file.path)!r} lists <pair>s of shapes, which Newton's collision "
                    "pipeline does not know. Set physics.solver.collisions to 'mujoco', which needs a plane or "
                    "physics.terrain 'heightfield'."
                )

    def memory(self) -> dict[str, wp.array | torch.Tensor]:
        # Each step starts its search from the last acceleration.
        return {"qacc_warmstart": self.inner.mjw_data.qacc_warmstart}

    def measure_contacts(self) -> ContactForces:
        data = self.inner.mjw_data
        if self._contact_forces is None:
            self._contact_forces = ContactForces(
                capacity=data.naconmax,
                count=data.nacon,
                world=data.contact.worldid,
                geom=data.contact.geom,
                shape_of_geom=self.inner.mjc_geom_to_newton_shape,  # pyright: ignore[reportArgumentType]
                force=wp.zeros(data.naconmax, dtype=wp.spatial_vectorf, device=self._device),
            )
            self._contact_ids = wp.array(np.arange(data.naconmax), dtype=wp.int32, device=self._device)
        return self._contact_forces

    def overflows(self) -> dict[str, str]:
        # At its iteration limit a solver stops early; no buffer was too small.
        latched = self._latched.numpy() & ~int(OverflowType.ITERATIONS | OverflowType.LS_ITERATIONS)
        rows, peak = self._peak_rows.numpy().max(), int(self._peak_contacts.numpy()[0])
        for array in (self._latched, self._peak_rows, self._peak_contacts):
            array.zero_()
        data, num_worlds = self.inner.mjw_data, self._num_worlds
        found: dict[str, str] = {}
        for bit in OverflowType.__members__.values():
            worlds = np.count_nonzero(latched & int(bit))
            if not worlds or bit == OverflowType.ALL:
                continue
            if bit == OverflowType.NEFC:
                found["constraint rows"] = (
                    f"{worlds} of {num_worlds} worlds, raise physics.solver.njmax from {data.njmax} to at least {rows}"
                )
            elif bit not in (OverflowType.BROADPHASE, OverflowType.NARROWPHASE):
                found[str(bit.name)] = f"{worlds} of {num_worlds} worlds"
        # Contacts, and the candidate pairs before them, live in one pool of all worlds.
        if peak > data.naconmax:
            found["contacts"] = (
                f"the pool of all {num_worlds} worlds, raise physics.solver.nconmax from "
                f"{data.naconmax // num_worlds} to at least {math.ceil(peak / num_worlds)}"
            )
        return found


def collides_by_newton(cfg: MuJoCoSolverCfg, terrain: TerrainShape | None, sorts: bool) -> bool:
    """Returns whether Newton finds the contacts, not MuJoCo Warp.

    Args:
        terrain: Shape of the generated terrain, if there is any.
        sorts: Whether contacts must come in the same order in every run.

    Raises:
        ConfigError: MuJoCo Warp is asked to collide with a mesh.
    """
    if not cfg.contacts:
        return False
    if cfg.collisions == "mujoco" and terrain == "mesh":
        raise ConfigError(
            "physics.solver.collisions is 'mujoco', and MuJoCo Warp takes a mesh for its convex hull: set it to "
            "'newton', or physics.terrain to 'heightfield'."
        )
    # On a GPU MuJoCo Warp leaves contacts in the order in which its threads found them, Newton can sort them.
    return cfg.collisions == "newton" or (cfg.collisions == "auto" and (terrain is not None or sorts))


def _allow_margins(model: newton.Model) -> None:
    """Lets boxes have the margins that their file gives them, by MuJoCo Warp's older search for convex shapes.

    With the native one, two boxes must have none, and Newton takes the margins of all shapes away.
    """
    has_box = bool(np.any(present(model.shape_type).numpy() == int(newton.GeoType.BOX)))
    margins = [model.shape_margin, getattr(model.mujoco, "pair_margin", None)]  # pyright: ignore[reportAttributeAccessIssue]
    if has_box and any(array is not None and array.numpy().any() for array in margins):
        model.mujoco.flag_nativeccd.fill_(0)  # pyright: ignore[reportAttributeAccessIssue]


class _Solver(FusedSolverMuJoCo):
    """Newton's solver, where MuJoCo Warp and what Newton makes of it differ from MuJoCo.

    It leaves out MuJoCo's rule that parents and children do not touch, as the model lists all pairs that do not. Fixed
    roots are mocap bodies here: MuJoCo would apply the rule to them, and does not to bodies fixed to the world.
    """

    _DISABLE_FLAGS = (*FusedSolverMuJoCo._DISABLE_FLAGS, "filterparent")
    _FLAG_DEFAULTS: ClassVar = FusedSolverMuJoCo._FLAG_DEFAULTS | {"filterparent": False}

    _on_slides: wp.array | None = None
    """(B,) whether MuJoCo takes a body for one that slides alone move, along its own axes."""

    def mark_sliding_bodies(self, bodies: Iterable[int]) -> None:
        """Gives ``bodies`` the inverse weights that MuJoCo has for bodies on slides alone, from now on."""
        marks = np.zeros(self.mj_model.nbody, dtype=np.int32)
        marks[list(bodies)] = 1
        self._on_slides = wp.array(marks, dtype=wp.int32, device=self.device) if marks.any() else None
        self._weigh_sliding_bodies()

    def notify_model_changed(self, flags: newton.ModelFlags | int) -> None:
        super().notify_model_changed(flags)
        self._weigh_sliding_bodies()

    def _weigh_sliding_bodies(self) -> None:
        if self._on_slides is None:
            return
        weights = self.mjw_model.body_invweight0
        wp.launch(
            kernels.weigh_sliding_bodies,
            dim=weights.shape,
            inputs=[self._on_slides, self.mjw_model.body_mass],
            outputs=[weights],
            device=self.device,
        )


def _make(cfg: MuJoCoSolverCfg, model: newton.Model, deterministic: bool, by_newton: bool) -> _Solver:
    if not by_newton:
        _allow_margins(model)
    # Newton's own collisions come with an estimate of theirs.
    sizes = None if by_newton else estimate_sizes(model, cfg.cone)
    num_dofs = model.joint_dof_count // max(model.world_count, 1)
    dense = cfg.jacobian == "auto" and _may_fuse(cfg, model.device) and fits(num_dofs)
    solver = _Solver(
        model,
        solver=cfg.solver,
        integrator=cfg.integrator,
        cone=cfg.cone,
        jacobian="dense" if dense else cfg.jacobian,
        impratio=cfg.impratio,
        iterations=cfg.iterations,
        ls_iterations=cfg.ls_iterations,
        tolerance=cfg.tolerance,
        density=cfg.density,
        viscosity=cfg.viscosity,
        ccd_iterations=cfg.ccd_iterations,
        njmax=sizes.rows if cfg.njmax is None and sizes is not None else cfg.njmax,
        nconmax=sizes.contacts if cfg.nconmax is None and sizes is not None else cfg.nconmax,
        disable_contacts=not cfg.contacts,
        use_mujoco_contacts=not by_newton,
        # A switchable root costs an idle weld constraint in every world.
        kinematic_switchable_roots=False,
    )
    if by_newton:
        # Newton's own friction gain of a shape would replace the stiffness of friction that the model file asks for.
        model.shape_material_kf = None
    _leave_out_absent_forces(solver.mjw_model)
    # Overflows are latched on the device and reported by health(); the default prints a line per step.
    solver.mjw_model.opt.warn_overflow = 0
    if deterministic:
        solver.mjw_model.opt.deterministic = True
    return solver


def _may_fuse(cfg: MuJoCoSolverCfg, device: wp.Device) -> bool:
    # On a GPU it has not been measured yet.
    return not device.is_cuda if cfg.fused == "auto" else cfg.fused


def _fuse(cfg: MuJoCoSolverCfg, solver: FusedSolverMuJoCo) -> str:
    """Lets the constraints be solved in one kernel if ``cfg`` says so; returns what to say about it.

    Raises:
        ConfigError: ``cfg`` demands it, and it cannot do what the model has.
    """
    if not _may_fuse(cfg, solver.device):
        return ""
    reason = unsupported(solver.mjw_model, solver.mjw_data)
    if reason is None:
        solver.fuse()
        return ", constraints in one kernel"
    if cfg.fused != "auto":
        raise ConfigError(f"physics.solver.fused is True, but its kernel does not fit this model: {reason}.")
    return f", constraints in many kernels ({reason})"


def _leave_out_absent_forces(model: mujoco_warp.Model) -> None:
    """Skips springs, dampers, gravity compensation and MuJoCo's own actuators in a model that has none of them, as
    nothing here adds them later; the efforts of our actuators are applied forces.

    The implicitfast integrator then also leaves out a second factorisation: what it would factorise, M - dt dF/dqvel,
    is the inertia M of the first.
    """
    may_be_absent = (
        model.jnt_stiffness,
        model.jnt_stiffnesspoly,
        model.dof_damping,
        model.dof_dampingpoly,
        model.body_gravcomp,
    )
    has_other_forces = model.nactuator or model.ntendon or model.nflex or model.has_fluid or model.flg_adhesion
    # implicitfast takes the gyroscopic forces of a single free body implicitly.
    has_free_bodies = model.body_freeadr.size > 0
    if has_other_forces or has_free_bodies or any(array.numpy().any() for array in may_be_absent):
        return
    model.opt.disableflags |= DisableBit.ACTUATION | DisableBit.SPRING | DisableBit.DAMPER
