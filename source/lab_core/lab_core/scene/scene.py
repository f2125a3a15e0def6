"""All entities of an environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import torch

from lab_core.config import NonNegative, PositiveInt, Settings, Within
from lab_core.errors import LabError, unknown_name_message
from lab_core.markers import Markers
from lab_core.names import UnknownNameError
from lab_core.scene.entity import Entity, EntityCfg
from lab_core.seeding import make_generator
from lab_core.sensors.sensor import SensorCfg, SensorData
from lab_core.state import Stateful
from lab_core.terrain import TerrainGeneratorCfg, TerrainLevels

if TYPE_CHECKING:
    from lab_core.physics import PhysicsBackend


SceneState = dict[str, dict[str, dict[str, torch.Tensor]]]
"""Kind of entity -> name -> key -> tensor (N, ...)."""


@dataclass(kw_only=True)
class CameraCfg(Settings):
    """The picture that videos and the first view of the viewer show."""

    eye: tuple[float, float, float] = (3.0, 3.0, 2.0)
    """Position of the camera relative to the environment's origin [m]."""
    target: tuple[float, float, float] = (0.0, 0.0, 0.5)
    """Point that the camera looks at, relative to the environment's origin [m]."""
    follow: str | None = None
    """Entity to follow: the camera moves with its root from where the entity stands by default. None: stay."""
    fov: Annotated[float, Within(0.0, 180.0, is_open=True)] = 45.0
    """Vertical field of view [deg]."""
    width: PositiveInt = 640
    height: PositiveInt = 480
    num_envs: PositiveInt = 1
    """Environments shown as tiles of one picture."""
    markers: tuple[str, ...] = ("commands/.*",)
    """Names or regular expressions of the markers to draw, of :attr:`~lab_core.physics.PhysicsBackend.marker_sources`:
    ``"commands/.*"``, ``"sensors/feet"``. The page shows these at first, and has a switch for each."""


@dataclass(kw_only=True)
class GroundCfg(Settings):
    """A horizontal plane at height 0."""

    friction: NonNegative = 1.0
    """Sliding friction coefficient."""
    collision: bool = True
    """False: the plane is only drawn."""


@dataclass(kw_only=True)
class SceneCfg(Settings):
    """What stands in every environment."""

    num_envs: int | None = None
    """Number of environments. None: 4096 on a GPU, 64 on a CPU."""
    env_spacing: NonNegative = 2.5
    """Distance between environments in viewers [m]. In the physics every environment has its own space."""
    ground: GroundCfg | None = field(default_factory=GroundCfg)
    """A plane; None for a terrain, or for none at all."""
    terrain: TerrainGeneratorCfg | None = None
    """Generated ground, in place of the plane."""
    entities: dict[str, EntityCfg] = field(default_factory=dict)
    sensors: dict[str, SensorCfg] = field(default_factory=dict)
    camera: CameraCfg = field(default_factory=CameraCfg)

    def resolve_num_envs(self, device: torch.device) -> int:
        """Returns the number of environments on ``device``."""
        if self.num_envs is None:
            return 4096 if device.type == "cuda" else 64
        if self.num_envs < 1:
            raise LabError(f"scene.num_envs must be at least 1, got {self.num_envs}.")
        return self.num_envs


class Scene(Stateful, Mapping[str, Entity]):
    """The entities by name; ``scene["robot"]``."""

    def __init__(self, cfg: SceneCfg, physics: PhysicsBackend) -> None:
        self.cfg = cfg
        self.physics = physics
        self._entities = {name: entity.make_entity(name, physics) for name, entity in cfg.entities.items()}
        self.env_origins = physics.env_origins
        """(N, 3) origin of each environment in the world frame [m]."""
        for name, sensor in cfg.sensors.items():
            if type(physics.sensors[name]).markers is not SensorData.markers:
                physics.marker_sources[f"sensors/{name}"] = partial(self._sensor_markers, name, sensor.entity)
        self.terrain = None if cfg.terrain is None else _terrain_levels(cfg.terrain, physics)
        """Level and type of each environment's tile, for a curriculum; None on a plane."""

    def __getitem__(self, name: str) -> Entity:
        if name not in self._entities:
            raise UnknownNameError(unknown_name_message("entity", name, self._entities))
        return self._entities[name]

    def sensor(self, name: str) -> SensorData:
        """Returns the measurements of a sensor.

        Raises:
            UnknownNameError: the scene has no such sensor.
        """
        if name not in self.physics.sensors:
            raise UnknownNameError(unknown_name_message("sensor", name, self.physics.sensors))
        return self.physics.sensors[name]

    def _sensor_markers(self, name: str, entity: str) -> Sequence[Markers]:
        return self.physics.sensors[name].markers(self[entity].data)

    def __contains__(self, name: object) -> bool:
        return name in self._entities

    def __iter__(self) -> Iterator[str]:
        return iter(self._entities)

    def __len__(self) -> int:
        return len(self._entities)

    def seed(self, seed: int) -> None:
        """Seeds what the scene itself draws: random terrain levels."""
        if self.terrain is not None:
            self.terrain.seed(seed)

    def reset(self, mask: torch.Tensor) -> None:
        """Puts the environments of ``mask`` (N,) bool into their default state and clears what the solver remembers."""
        self.physics.write_default_state(mask)
        self.physics.reset(mask)

    def read_state(self, is_relative: bool = False) -> SceneState:
        """Returns the state of every entity by kind, name and key, as live buffers; see :meth:`Entity.read_state`.

        ``{"articulation": {name: {"root_pose" (N, 7), "root_velocity" (N, 6, of the centre of mass),
        "joint_position" (N, J), "joint_velocity" (N, J)}}, "rigid_object": {name: the first two}}``

        Args:
            is_relative: Give positions relative to the environments' origins.
        """
        state: SceneState = {}
        for name, entity in self._entities.items():
            state.setdefault(entity.kind, {})[name] = entity.read_state(is_relative)
        return state

    def get_state(self, is_relative: bool = False) -> SceneState:
        """Returns copies of what :meth:`read_state` returns."""
        return {
            kind: {name: {key: value.clone() for key, value in state.items()} for name, state in entities.items()}
            for kind, entities in self.read_state(is_relative).items()
        }

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Compares a state with the layout of :meth:`get_state`.

        Raises:
            LabError: a kind, an entity or a key is missing or unknown, or a shape differs.
        """
        present = self.read_state()
        if unknown := sorted(kind for kind, entities in state.items() if entities and kind not in present):
            raise LabError(f"The state holds entities of the kinds {unknown}, the scene has {sorted(present)}.")
        for kind, entities in present.items():
            stored = state.get(kind, {})
            if set(stored) != set(entities):
                raise LabError(f"The state holds {sorted(stored)}, the scene holds {sorted(entities)}.")
            for name, expected in entities.items():
                if set(stored[name]) != set(expected):
                    raise LabError(f"The state of {name!r} holds {sorted(stored[name])}, expected {sorted(expected)}.")
                for key, value in expected.items():
                    if stored[name][key].shape != value.shape:
                        raise LabError(
                            f"{key} of {name!r} has shape {tuple(stored[name][key].shape)}, "
                            f"expected {tuple(value.shape)}."
                        )

    def set_state(
        self, state: Mapping[str, Mapping[str, Mapping[str, Any]]], mask: torch.Tensor, is_relative: bool = False
    ) -> None:
        """Writes a state of :meth:`get_state` into the environments of ``mask`` (N,) bool.

        Joint targets become the positions of the state, so that nothing pulls before the first action.

        Raises:
            LabError: see :meth:`check_state`; nothing has been written.
        """
        self.check_state(state)
        for name, entity in self._entities.items():
            entity.write_state(state[entity.kind][name], mask, is_relative)


def _terrain_levels(cfg: TerrainGeneratorCfg, physics: PhysicsBackend) -> TerrainLevels:
    terrain = physics.terrain
    assert terrain is not None, "the backend generates the terrain of its scene"
    return TerrainLevels(
        terrain.origins,
        physics.num_envs,
        make_generator(cfg.seed or 0, physics.device, "terrain levels"),
        max_init_level=cfg.max_init_level if cfg.curriculum else None,
        env_origins=physics.env_origins,
    )
