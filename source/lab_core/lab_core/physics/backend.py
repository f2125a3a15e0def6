"""The interface between environments and a physics engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab_core.capability import Capability
from lab_core.config import MISSING, Settings
from lab_core.errors import ConfigError, LabError
from lab_core.markers import MarkerSource
from lab_core.physics.fingerprint import Fingerprint, plain
from lab_core.physics.ghosts import Ghost, GhostSource, collect_ghosts
from lab_core.physics.viewer import SettableCommand, Viewer
from lab_core.terrain import Terrain, generate_terrain

if TYPE_CHECKING:
    from lab_core.kinematics import KinematicTree
    from lab_core.scene import CameraCfg, EntityCfg, EntityData, SceneCfg
    from lab_core.sensors import SensorData


class CapacityError(LabError, RuntimeError):
    """A solver buffer overflowed while ``strict_capacity`` was set."""


@dataclass(kw_only=True)
class PhysicsCfg(Settings):
    """Settings that every backend shares."""

    backend: str = MISSING
    """Name in the entry-point group ``lab.backends``, for example ``"newton"``."""
    dt: float = MISSING
    """Duration of one physics step [s]."""
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    """Gravity in the world frame [m/s^2]."""
    deterministic: bool = False
    """Repeat bit for bit on a GPU, slower. On a CPU steps always repeat. An environment's switch sets this one too."""


@dataclass
class HealthReport:
    """What went wrong in the physics since the last report."""

    non_finite_envs: int = 0
    """Environments that went non-finite, or faster than the backend allows, and were put back to their default state,
    counted once per environment step."""
    overflows: dict[str, str] = field(default_factory=dict)
    """Overflowed solver buffer -> environments concerned, the setting to raise and the value needed."""

    @property
    def ok(self) -> bool:
        return not self.non_finite_envs and not self.overflows


class PhysicsBackend(ABC):
    """Steps all environments and owns the memory of their state.

    A backend allocates the :class:`EntityData` of every entity. Its tensors keep their addresses for life. ``step``
    fills them; state that an environment authors (joint positions and velocities, root pose and velocity) is written
    into them, marked with :meth:`mark_written` and handed to the engine by :meth:`forward`.

    An environment whose state turns non-finite during ``step`` is put back to its default state inside ``step``, so
    that no term, sensor or neighbour ever reads the bad values; ``non_finite`` names these until the next step.
    """

    capturable: Capability = Capability(False, "its steps are no kernels of Warp")
    """Whether ``step``, ``reset`` and ``forward`` can become part of a graph."""
    num_envs: int
    device: torch.device
    dt: float
    entities: dict[str, EntityData]
    """Entity name -> data."""
    sensors: dict[str, SensorData]
    """Sensor name -> measurements."""
    non_finite: torch.Tensor
    """(N,) bool, environments that went non-finite in the last ``step``."""

    def __init__(self, cfg: PhysicsCfg, scene: SceneCfg, num_envs: int, device: torch.device) -> None:
        """Generates the terrain, if the scene has one, and allocates what every backend has.

        Raises:
            ConfigError: the scene has both a plane and a terrain, or the terrain is impossible.
        """
        if scene.terrain is not None and scene.ground is not None:
            raise ConfigError("scene.ground and scene.terrain are both set. Set scene.ground to None for the terrain.")
        self.terrain: Terrain | None = None if scene.terrain is None else generate_terrain(scene.terrain)
        """The generated ground; None on a plane."""
        self.env_origins = torch.zeros(num_envs, 3, device=device)
        """(N, 3) origin of each environment in the world frame [m]; the scene fills it."""
        self.cfg = cfg
        self.num_envs = num_envs
        self.device = device
        self.dt = cfg.dt
        self.entities = {}
        self.sensors = {}
        self.resolved: dict[str, EntityCfg] = {}
        """Entity name -> its configuration, with what its model file says filled in; a backend that reads files adds
        those that ask for something of it."""
        self.non_finite = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self.written = torch.zeros(num_envs, dtype=torch.bool, device=device)
        """(N,) bool, environments with authored state that the engine has not taken over yet."""
        self.rebuild_callbacks: list[Callable[[], None]] = []
        """Called after each :meth:`rebuild`; graphs that hold engine memory must be dropped there."""
        self.ghost_sources: list[GhostSource] = []
        """Asked for ghosts whenever a picture is drawn, and never otherwise: the physics knows of none."""
        self.marker_sources: dict[str, MarkerSource] = {}
        """Name -> what gives markers, asked as :attr:`ghost_sources` are, and only while somebody looks at those of
        this name: ``commands/<term>``, ``rewards/<term>`` and so on, ``sensors/<sensor>``, and names of one's own."""

    @property
    def capture_context(self) -> object | None:
        """The ``lab_warp.CaptureContext`` of its graphs, which those of a front end join; None where it has none."""
        return None

    @property
    def description(self) -> str:
        """What computes the physics and how it runs, for the line that a training begins with."""
        return self.cfg.backend

    @property
    def ignored_buffers(self) -> frozenset[str]:
        """Names of buffers of entities that have no effect here, such as ``"body_wrench_w"``; events that declare to
        write them are refused."""
        return frozenset()

    def fingerprint(self) -> Fingerprint:
        """Returns what decides how the robots move, by names that mean the same in every backend, as plain values.

        ``timing`` and ``forces`` here. A backend adds ``robot`` (bodies and joints by entity), ``actuators``,
        ``materials``, ``collision`` and ``versions``, of the engine as it was built: whatever changed since then, by
        randomisation say, is not in it. Left out are settings of a solver, places of files, paths inside them, the
        shape of terrain and the number of environments. :func:`lab_core.physics.differences` compares two of these.
        """
        return plain({"timing": {"dt": self.dt}, "forces": {"gravity": self.cfg.gravity}})

    def kinematic_tree(self, entity: str) -> KinematicTree:
        """Returns how the bodies of an articulation hang together, as it was built: enough to tell where they are from
        root and joints.

        Raises:
            LabError: the backend does not know, there is no such entity, or it is no tree of hinges and slides.
        """
        raise LabError(
            f"The {self.cfg.backend!r} physics backend does not say how the bodies of {entity!r} hang together."
        )

    def mark_written(self, mask: torch.Tensor) -> None:
        """Marks environments ``mask`` (N,) bool as having newly authored state."""
        self.written.logical_or_(mask)

    def write_default_state(self, mask: torch.Tensor) -> None:
        """Puts all entities into their default state at the origins of the environments of ``mask`` (N,) bool.

        Clears their targets and efforts; see :meth:`EntityData.write_default_state`. Solvers and sensors keep what
        they remember: :meth:`reset` clears that.
        """
        for data in self.entities.values():
            data.write_default_state(self.env_origins, mask)
        self.mark_written(mask)

    @abstractmethod
    def step(self, substeps: int) -> None:
        """Advances every environment by ``substeps * dt`` seconds.

        Each substep runs the actuators on the joint targets, the solver, and the sensors that need every substep;
        derived state is refreshed at the end.
        """

    @abstractmethod
    def reset(self, mask: torch.Tensor) -> None:
        """Clears solver warm starts, actuator state and sensor state of the environments of ``mask`` (N,) bool.

        It leaves positions and velocities alone: the scene writes those.
        """

    @abstractmethod
    def forward(self) -> None:
        """Takes over authored state of the environments of ``written``, refreshes their bodies, clears ``written``."""

    def trace(self, owner: str, field: str, substeps: int) -> torch.Tensor:
        """Returns a buffer (N, K, ...) that every following ``step`` fills with a quantity of each of its K substeps.

        An effort is the one that entered the solver in that substep; everything else is what the substep led to. Calls
        of ``step`` that are shorter than K fill the rows in turn, so that K calls of one substep give what one of K
        gives. An environment that went non-finite shows the values of then. Tracing changes nothing else.

        Args:
            owner: Name of an entity or a sensor.
            field: For an entity ``applied_effort``, ``joint_pos``, ``joint_vel``, ``root_link_pose_w`` (world frame)
                or ``root_com_vel_w``; for a contact sensor ``net_forces_w``.
            substeps: K, the same for all traces: the decimation of the environment.

        Raises:
            LabError: the backend keeps no traces, there is no such quantity, or others are traced with another K.
        """
        raise LabError(f"The {self.cfg.backend!r} physics backend traces no substeps ({owner}, {field}).")

    def actuator_memory(self) -> dict[str, torch.Tensor]:
        """Returns the live buffers (N, ...) of what actuators carry from step to step, by ``<entity>.<name>``.

        :meth:`rebuild` makes them anew.
        """
        return {}

    def seed(self, seed: int) -> None:
        """Starts the backend's own random streams anew, such as that of the lags of delayed actuators."""
        del seed  # without such streams there is nothing to do

    def notify(self, entity: str, *properties: str) -> None:
        """Hands changed property buffers of an entity to the engine, for all environments.

        Args:
            entity: Name of the entity.
            properties: Names of tensors of its :class:`EntityData` that are declared with a notice, for example
                ``"body_mass"``. Gains and effort limits of actuators need none: they are read in every step. A change
                of mass, inertia, centre of mass or armature is expensive; make it when the environment starts, or
                rarely.
        """
        raise LabError(f"The {self.cfg.backend!r} physics backend cannot change {', '.join(properties)}.")

    def rebuild(self) -> None:
        """Builds the engine anew (model, solver, graphs) from the configuration, then calls ``rebuild_callbacks``.

        Every environment is at its default state; the callbacks apply the startup events again.
        """
        self._rebuild()
        for callback in self.rebuild_callbacks:
            callback()

    @abstractmethod
    def _rebuild(self) -> None:
        """Builds the engine anew; every environment is at its default state."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Returns all state that decides the future, as owned CPU copies: loading it continues bit for bit on a CPU."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores :meth:`state_dict` in place."""

    def health(self) -> HealthReport:
        """Reads and clears the device counters (one host synchronisation; call it once per iteration).

        Raises:
            CapacityError: a buffer overflowed and the configuration forbids it.
            LabError: somebody wrote one of :attr:`ignored_buffers`.
        """
        return HealthReport()

    def ghosts(self) -> list[Ghost]:
        """Returns what :attr:`ghost_sources` give, for those who draw.

        Raises:
            LabError: a ghost is of no entity of the scene, or its pose has the wrong shape.
        """
        return collect_ghosts(self.ghost_sources, self.entities, self.num_envs)

    def render(self, camera: CameraCfg) -> np.ndarray:
        """Returns a uint8 RGB picture ``(height, width, 3)`` of the scene, with its ghosts and the camera's markers."""
        raise LabError(f"The {self.cfg.backend!r} physics backend cannot render. Use 'newton' for videos.")

    def open_viewer(
        self,
        camera: CameraCfg,
        host: str = "127.0.0.1",
        port: int = 8080,
        commands: Mapping[str, SettableCommand] | None = None,
        on_reset: Callable[[], None] | None = None,
    ) -> Viewer:
        """Serves a live view on ``http://host:port``, or at the next free port.

        Args:
            camera: The first view; what it follows can be followed there.
            commands: Commands to control there, by name.
            on_reset: What to do when somebody asks for a reset there; without it nobody can.
        """
        raise LabError(f"The {self.cfg.backend!r} physics backend has no viewer. Use 'newton' to watch the robot.")

    def close(self) -> None:
        """Releases engine memory; safe to call twice."""
