"""Settings of the Newton backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from lab_core.config import MISSING, NonNegative, Positive, PositiveInt, Settings, resolve_reference
from lab_core.errors import ConfigError
from lab_core.physics import PhysicsCfg
from lab_core.scene import SceneCfg

if TYPE_CHECKING:  # tasks are listed without loading Newton
    import newton
    from newton.solvers import SolverBase

    from lab_newton.solver import Solver

TerrainShape = Literal["mesh", "heightfield"]


@dataclass(kw_only=True)
class SolverCfg(Settings, ABC):
    """Base of the solver settings: what builds a solver.

    A solver of another package is a subclass of this one and one of :class:`lab_newton.solvers.Solver`. Solvers import
    their settings; settings name their solver by reference, so that reading them does not load Newton.
    """

    kernel_modules: ClassVar[tuple[str, ...]] = ()
    """Modules of kernels to compile ahead, several at once and without derivatives; those first that take longest."""

    @abstractmethod
    def build(self, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> Solver:
        """Returns the solver for ``model``, which was made from ``scene``.

        Raises:
            ConfigError: there is no such solver for this model.
        """

    def prepare(self, builder: newton.ModelBuilder) -> None:
        """Sets what the solver asks of a model, before anything is in it: attributes of its own, or the distance at
        which shapes count as contacts (``builder.rigid_gap`` [m], 0.1) where :attr:`NewtonCfg.contact_gap` is None."""


@dataclass(kw_only=True)
class MuJoCoSolverCfg(SolverCfg):
    """MuJoCo Warp. These values replace the ``<option>`` element of the model files."""

    solver: Literal["newton", "cg"] = "newton"
    integrator: Literal["implicitfast", "implicit", "euler", "rk4"] = "implicitfast"
    cone: Literal["pyramidal", "elliptic"] = "pyramidal"
    """Friction cone of contacts."""
    jacobian: Literal["auto", "dense", "sparse"] = "auto"
    impratio: Positive = 1.0
    """Ratio of frictional to normal constraint impedance."""
    iterations: PositiveInt = 100
    """Most solver iterations per step; it stops earlier once all worlds have converged."""
    ls_iterations: PositiveInt = 50
    """Most line-search iterations per solver iteration."""
    tolerance: NonNegative = 1e-6
    """Improvement of the scaled cost below which a world has converged."""
    fused: bool | Literal["auto"] = "auto"
    """Solve the constraints of a world in one kernel that stops as soon as this world has converged, instead of many
    kernels for each iteration of all worlds. ``"auto"``: on a CPU, where it can do what the model has; ``False``:
    MuJoCo Warp untouched."""
    density: float = 0.0
    """Density of what bodies move in [kg/m^3], which drags and lifts them: 1.2 is air, 1000 water."""
    viscosity: float = 0.0
    """Viscosity of what bodies move in [Pa s]: 0.00002 is air, 0.0009 water."""
    ccd_iterations: PositiveInt = 35
    """Most iterations of convex collision detection."""
    contacts: bool = True
    """False: nothing collides, and the collision kernels are neither compiled nor launched."""
    collisions: Literal["auto", "mujoco", "newton"] = "auto"
    """Who finds contacts: MuJoCo Warp, Newton's collision pipeline, or Newton on generated terrain and in deterministic
    runs on a GPU, and else MuJoCo.

    MuJoCo Warp takes a mesh for its convex hull, and robots that stumble on its height fields are thrown into the air.
    """
    njmax: PositiveInt | None = None
    """Constraint rows per world. None: as many as robots need that lie on the ground with all their shapes, at least
    64. Less takes less memory; what is lost is told by a warning in the first steps, and by ``env.health()``."""
    nconmax: PositiveInt | None = None
    """Contacts per world; the worlds share one pool. None: as many as robots have that lie on the ground with all their
    shapes, at least 48."""
    strict_capacity: bool = False
    """Raise ``CapacityError`` in ``health()`` when a buffer was too small, instead of only reporting it."""

    # Models without passive forces could do without ``derivative`` and ``passive``.
    kernel_modules: ClassVar[tuple[str, ...]] = (
        "newton._src.sim.articulation",
        "newton._src.solvers.mujoco.kernels",
        "mujoco_warp._src.smooth",
        "mujoco_warp._src.forward",
        "mujoco_warp._src.derivative",
        "mujoco_warp._src.passive",
        "newton._src.geometry.bvh",
        "mujoco_warp._src.set_const",
        "mujoco_warp._src.support",
        "mujoco_warp._src.solver",
        "lab_newton.solvers.mujoco_kernels",
    )

    def build(self, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> Solver:
        solver = resolve_reference("lab_newton.solvers.mujoco:MuJoCoSolver")
        return solver(self, model, physics.deterministic, None if scene.terrain is None else physics.terrain)

    def prepare(self, builder: newton.ModelBuilder) -> None:
        builder.rigid_gap = 0.0  # it needs no warning before bodies touch, and each would take a contact slot


@dataclass(kw_only=True)
class NewtonSolverCfg(SolverCfg):
    """Any other solver class with Newton's interface (``newton.solvers.SolverBase``), with its collision pipeline."""

    name: str | type
    """The class, or its name: one of ``newton.solvers``, for example ``"SolverFeatherstone"``, ``"SolverXPBD"`` or
    ``"SolverSemiImplicit"``, or one of any module, as ``"module:Class"``."""
    coordinates: Literal["joint", "body"] = "joint"
    """What the solver moves. XPBD and SemiImplicit move bodies; joint positions are then read from the bodies, and
    those of hinges lie between -pi and pi."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the class."""
    contacts: bool = True
    """False: nothing collides."""

    def build(self, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> Solver:
        return resolve_reference("lab_newton.solvers.named:NamedSolver")(self, model)

    def prepare(self, builder: newton.ModelBuilder) -> None:
        self.find_class().register_custom_attributes(builder)

    def find_class(self) -> type[SolverBase]:
        """Returns the class that :attr:`name` stands for.

        Raises:
            ConfigError: there is none.
        """
        from newton import solvers

        name = found = self.name
        if isinstance(name, str):
            found = resolve_reference(name) if ":" in name else getattr(solvers, name, None)
        if isinstance(found, type) and issubclass(found, solvers.SolverBase):
            return found
        if isinstance(name, str) and ":" not in name:
            known = [other for other in dir(solvers) if other.startswith("Solver") and other != "SolverBase"]
            raise ConfigError(
                f"physics.solver.name: newton.solvers has no {name!r}. It has: {', '.join(known)}. "
                "Name a class of another module as 'module:Class'."
            )
        raise ConfigError(f"physics.solver.name: {name!r} is no subclass of newton.solvers.SolverBase.")


Runtime = Literal["kernels", "torch", "compiled"]


@dataclass(kw_only=True)
class NeRDSolverCfg(SolverCfg):
    """A model that learned the dynamics of the scene's one robot, see :mod:`lab_newton.nerd`."""

    model: str = MISSING
    """File of ``lab nerd fit``: a path, or ``package:path/inside/package``."""
    teacher: SolverCfg = field(default_factory=MuJoCoSolverCfg)
    """Settings of the solver that it learned from. What that asks of a model is asked of this one too, so that they are
    the same, and ``lab nerd eval`` compares with it."""
    runtime: Runtime = "kernels"
    """What computes the network: Warp kernels of its own where it has them, as ``ContactImpulses`` of a robot with a
    free root does, else torch; torch; or ``torch.compile``, which takes minutes at the start, and a C++ compiler."""

    kernel_modules: ClassVar[tuple[str, ...]] = (
        "newton._src.sim.articulation",
        "lab_newton.nerd.history_kernels",
        "lab_newton.nerd.impulses.bodies_kernels",
        "lab_newton.nerd.impulses.places_kernels",
        "lab_newton.nerd.impulses.rounds_kernels",
    )

    def build(self, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> Solver:
        return resolve_reference("lab_newton.nerd.solver:NeRDSolver")(self, model, physics, scene)

    def prepare(self, builder: newton.ModelBuilder) -> None:
        self.teacher.prepare(builder)


@dataclass(kw_only=True)
class NewtonCfg(PhysicsCfg):
    """Newton, with MuJoCo Warp as its default solver."""

    backend: str = "newton"
    solver: SolverCfg = field(default_factory=MuJoCoSolverCfg)
    terrain: TerrainShape = "mesh"
    """What bodies collide with on generated terrain: exact triangles, or a regular grid of heights, whose walls are
    slopes. The mesh is faster; a leg that gets through a wall of it stays inside for a while."""
    substeps: PositiveInt = 1
    """Solver steps per physics step of duration ``dt``. Actuator efforts are held over them."""
    contact_gap: NonNegative | None = None
    """Distance at which shapes count as contacts [m], between surfaces; nothing pushes before they touch. None: what
    the solver asks for, 0 for MuJoCo Warp and 0.1 for others. Each contact takes a slot."""
    max_velocity: Positive | None = 1000.0
    """A world in which a joint or a floating root is faster than this [rad/s or m/s] is put back to its default state
    and reported, as if it had gone NaN: its state is finite, but nothing can be learned from it. At the default a
    hinge turns 5 rad in a step of 5 ms, which no integrator follows, while legs and arms stay below 100 rad/s. None:
    any finite velocity will do."""
