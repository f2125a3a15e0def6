"""The configured Newton solver, stepped in place."""

# Newton declares its arrays as optional.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import mujoco_warp
import newton
import warp as wp
from mujoco_warp import DisableBit
from newton.solvers import SolverBase, SolverMuJoCo

from lab_core.errors import ConfigError
from lab_newton.config import MuJoCoSolverCfg, NewtonSolverCfg, SolverCfg
from lab_newton.terrain import TerrainShape


@dataclass(frozen=True)
class ContactForces:
    """Contacts of the latest solver step, those of all worlds in one pool."""

    capacity: int
    count: wp.array
    """(1,) number of contacts; the rest of the pool is left from earlier steps."""
    world: wp.array
    """(capacity,) world of each contact."""
    geom: wp.array
    """(capacity,) the two geoms of each contact, in MuJoCo's numbers."""
    shape_of_geom: wp.array
    """(N, geoms) Newton's shape of each geom; -1 for none."""
    force: wp.array
    """(capacity,) force [N] and torque on the second geom, world frame; 0 where geoms are close but do not touch."""


class Solver:
    """A Newton solver with what it needs around it: collisions, a second state, coordinates of the joints.

    ``newton`` is the solver itself.
    """

    def __init__(
        self,
        cfg: SolverCfg,
        model: newton.Model,
        deterministic: bool = False,
        terrain: TerrainShape | None = None,
    ) -> None:
        """Makes the solver of ``cfg`` for ``model``, which holds generated terrain of the shape ``terrain``, if any.

        ``deterministic`` repeats on a GPU, about 16 times slower: MuJoCo Warp then adds up in a fixed order, and
        Newton's collision pipeline finds the contacts, sorted, unless ``cfg`` asks for MuJoCo Warp's.

        Raises:
            ConfigError: the class is unknown, it refuses its options, or it cannot collide with the terrain.
        """
        self._model = model
        self._collisions: newton.CollisionPipeline | None = None
        self._contacts: newton.Contacts | None = None
        self._contact_forces: ContactForces | None = None
        self.observables: SolverBase.Observables | None = None
        """What :meth:`observe` asked for, as the last observed step left it."""
        self._next: newton.State | None = None
        self.steps_bodies = False
        """Whether the solver moves bodies, not joints."""
        if isinstance(cfg, MuJoCoSolverCfg):
            sorts = deterministic and model.device.is_cuda
            by_newton = cfg.contacts and _collides_by_newton(cfg, terrain, sorts)
            self.newton: SolverBase = _make_mujoco(cfg, model, deterministic, by_newton)
            if by_newton:
                capacity = self.newton.mjw_data.naconmax
                self._collisions = newton.CollisionPipeline(
                    model, rigid_contact_max=capacity, deterministic=deterministic
                )
                self._contacts = self._collisions.contacts()
        elif isinstance(cfg, NewtonSolverCfg):
            self.newton = _make_named(cfg, model)
            self._next = model.state()
            self.steps_bodies = cfg.coordinates == "body"
            if cfg.contacts:
                self._collisions = newton.CollisionPipeline(model)
                self._contacts = self._collisions.contacts()
        else:
            raise ConfigError(f"physics.solver is a {type(cfg).__name__}, expected MuJoCoSolverCfg or NewtonSolverCfg.")

    @property
    def reads_bodies(self) -> bool:
        """Whether bodies must be where their joints put them before a step: they are what the solver moves, or what
        Newton finds contacts of."""
        return self.steps_bodies or self._collisions is not None

    def collide(self, state: newton.State) -> None:
        """Finds contacts at the start of a physics step, where the solver does not do so itself."""
        if self._collisions is not None:
            self._collisions.collide(state, self._contacts)

    @property
    def contact_candidates(self) -> wp.array | None:
        """(1,) contacts that were found, more than fit into the pool if it is too small; None if nobody counts."""
        if self._contacts is not None:
            return self._contacts.rigid_contact_count
        return self.newton.mjw_data.ncollision if isinstance(self.newton, SolverMuJoCo) else None

    def observe(self, kinds: Set[str]) -> None:
        """Allocates ``observables``.

        Raises:
            ConfigError: the solver does not offer one of ``kinds``.
        """
        missing = kinds - self.newton.supported_observables
        if missing:
            raise ConfigError(f"{type(self.newton).__name__} does not offer {', '.join(sorted(missing))}.")
        self.observables = self.newton.observables(kinds) if kinds else None

    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        """Advances ``state`` by ``dt`` [s], and fills ``observables`` if ``observed``."""
        observables = self.observables if observed else None
        if self._next is None:
            # MuJoCo Warp would go on to compute the observables of the bodies in every step.
            self.newton.mjw_model.opt.run_rne_postconstraint = observables is not None
            self.newton.step(state, state, control, self._contacts, dt, observables=observables)
            self._read_contact_forces()
            return
        wp.copy(self._next.body_f, state.body_f)  # solvers may add contact forces to those of the old state
        self.newton.step(state, self._next, control, self._contacts, dt, observables=observables)
        if self.steps_bodies:
            newton.eval_ik(self._model, self._next, self._next.joint_q, self._next.joint_qd)
        state.assign(self._next)

    def reset(self, state: newton.State, world_mask: wp.array) -> None:
        """Clears what the solver remembers of the worlds of ``world_mask`` (N + 1,), not their state.

        A NaN in a warm start would outlive the state that caused it.
        """
        self.newton.reset(state, world_mask=world_mask, flags=0)

    def measure_contacts(self) -> ContactForces:
        """Returns contacts that every following :meth:`step` fills.

        Raises:
            ConfigError: the solver is not MuJoCo Warp.
        """
        if not isinstance(self.newton, SolverMuJoCo):
            raise ConfigError(f"Contact forces come from MuJoCo Warp, the solver is a {type(self.newton).__name__}.")
        data = self.newton.mjw_data
        if self._contact_forces is None:
            self._contact_forces = ContactForces(
                capacity=data.naconmax,
                count=data.nacon,
                world=data.contact.worldid,
                geom=data.contact.geom,
                shape_of_geom=self.newton.mjc_geom_to_newton_shape,
                force=wp.zeros(data.naconmax, dtype=wp.spatial_vector, device=self._model.device),
            )
            self._contact_ids = wp.array(range(data.naconmax), dtype=wp.int32, device=self._model.device)
        return self._contact_forces

    def _read_contact_forces(self) -> None:
        if self._contact_forces is not None:
            with wp.ScopedDevice(self._model.device):
                mujoco_warp.contact_force(
                    self.newton.mjw_model, self.newton.mjw_data, self._contact_ids, True, self._contact_forces.force
                )

    def memory(self) -> dict[str, wp.array]:
        """What the solver carries from step to step, by name."""
        if isinstance(self.newton, SolverMuJoCo):
            # Each step starts its search from the last acceleration.
            return {"qacc_warmstart": self.newton.mjw_data.qacc_warmstart}
        return {}


def _collides_by_newton(cfg: MuJoCoSolverCfg, terrain: TerrainShape | None, sorts: bool) -> bool:
    if cfg.collisions == "mujoco" and terrain == "mesh":
        raise ConfigError(
            "physics.solver.collisions is 'mujoco', and MuJoCo Warp takes a mesh for its convex hull: set it to "
            "'newton', or physics.terrain to 'heightfield'."
        )
    # On a GPU MuJoCo Warp leaves contacts in the order in which its threads found them, Newton can sort them.
    return cfg.collisions == "newton" or (cfg.collisions == "auto" and (terrain is not None or sorts))


def _make_mujoco(
    cfg: MuJoCoSolverCfg, model: newton.Model, deterministic: bool, collides_by_newton: bool
) -> SolverMuJoCo:
    solver = SolverMuJoCo(
        model,
        solver=cfg.solver,
        integrator=cfg.integrator,
        cone=cfg.cone,
        jacobian=cfg.jacobian,
        impratio=cfg.impratio,
        iterations=cfg.iterations,
        ls_iterations=cfg.ls_iterations,
        tolerance=cfg.tolerance,
        ccd_iterations=cfg.ccd_iterations,
        njmax=cfg.njmax,
        nconmax=cfg.nconmax,
        disable_contacts=not cfg.contacts,
        use_mujoco_contacts=not collides_by_newton,
        # A switchable root costs an idle weld constraint in every world.
        kinematic_switchable_roots=False,
    )
    if collides_by_newton:
        # Newton's own friction gain of a shape would replace the stiffness of friction that the model file asks for.
        model.shape_material_kf = None
    _leave_out_absent_forces(solver.mjw_model)
    # Overflows are latched on the device and reported by health(); the default prints a line per step.
    solver.mjw_model.opt.warn_overflow = 0
    if deterministic:
        solver.mjw_model.opt.deterministic = True
    return solver


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


def _make_named(cfg: NewtonSolverCfg, model: newton.Model) -> SolverBase:
    solver_class = getattr(newton.solvers, cfg.name, None)
    if not (isinstance(solver_class, type) and issubclass(solver_class, SolverBase)):
        known = [name for name in dir(newton.solvers) if name.startswith("Solver") and name != "SolverBase"]
        raise ConfigError(f"physics.solver.name: newton.solvers has no {cfg.name!r}. It has: {', '.join(known)}.")
    try:
        return solver_class(model, **cfg.options)
    except TypeError as error:
        raise ConfigError(f"physics.solver.options of {cfg.name}: {error}.") from error
