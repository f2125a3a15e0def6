"""One thing of a scene in every environment, of whatever kind: reading and writing its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import torch

from lab_core.config import Settings
from lab_core.errors import LabError
from lab_core.masks import masked_copy_, resolve_mask
from lab_core.names import match_names
from lab_core.scene.buffers import Kind, Role
from lab_core.scene.entity_data import EntityData, moved

CfgT = TypeVar("CfgT", bound="EntityCfg")
DataT = TypeVar("DataT", bound=EntityData)


class EntityPhysics(Protocol):
    """What entities use of a :class:`~lab_core.physics.PhysicsBackend`."""

    num_envs: int
    device: torch.device
    env_origins: torch.Tensor
    """(N, 3) origin of each environment in the world frame [m]."""
    entities: dict[str, EntityData]
    """Entity name -> data."""
    resolved: dict[str, EntityCfg]
    """Entity name -> its configuration, with what its model file says filled in; those that ask for nothing of it are
    absent."""

    def mark_written(self, mask: torch.Tensor) -> None:
        """Marks environments ``mask`` (N,) bool as having newly authored state."""
        ...


@dataclass(kw_only=True)
class EntityCfg(Settings, ABC):
    """Base of the configurations of entities; the scene holds them by name.

    A kind of entity is a subclass of this with the :class:`Entity` that it makes and its :class:`EntityData`. A physics
    backend that can simulate the kind has a part of its own for the configuration's class.
    """

    @abstractmethod
    def make_entity(self, name: str, physics: EntityPhysics) -> Entity:
        """Returns the access to the entity ``name`` that ``physics`` has built."""


class Entity(ABC, Generic[CfgT, DataT]):
    """Access to one entity in all environments.

    State is written into :attr:`data` for the environments of a mask; other rows stay bitwise unchanged. Positions of
    bodies and body-frame velocities follow at the next ``physics.forward()``, which environments call after reset
    events and after interval events.
    """

    kind: ClassVar[str]
    """Key of the kind in states of a scene and in files, for example ``"articulation"``."""

    def __init__(self, name: str, cfg: CfgT, data: DataT, physics: EntityPhysics) -> None:
        self.name = name
        self.cfg = cfg
        self.data = data
        self.default_properties = {name: getattr(data, name).clone() for name in data.buffers(Role.PROPERTY)}
        """Properties as built, by their names in :attr:`data`: what randomisation starts from, however often."""
        self._physics = physics

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints in the order of the buffers; empty for a kind without joints."""
        return self.data.joint_names

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies in the order of the buffers."""
        return self.data.body_names

    @property
    def has_joints(self) -> bool:
        """Whether entities of this kind have joints, be it none in this one."""
        return "joint_pos" in self.data.buffers()

    def find_joints(self, patterns: str | Sequence[str], preserve_order: bool = False) -> list[int]:
        """Returns joint indices; see :func:`lab_core.names.match_names`."""
        return match_names(patterns, self.joint_names, what=f"joint of {self.name!r}", preserve_order=preserve_order)

    def find_bodies(self, patterns: str | Sequence[str], preserve_order: bool = False) -> list[int]:
        """Returns body indices; see :func:`lab_core.names.match_names`."""
        return match_names(patterns, self.body_names, what=f"body of {self.name!r}", preserve_order=preserve_order)

    def write_joint_state(
        self,
        position: torch.Tensor,
        velocity: torch.Tensor,
        mask: torch.Tensor | Sequence[int] | None = None,
        joint_ids: slice | torch.Tensor = slice(None),
    ) -> None:
        """Sets positions and velocities (N, J) of joints, all or those of ``joint_ids``, where ``mask`` says.

        Raises:
            LabError: entities of this kind have no joints.
        """
        if not self.has_joints:
            raise LabError(f"Cannot write the joint state of {self.name!r}: it has no joints.")
        self._write({"joint_pos": position, "joint_vel": velocity}, mask, joint_ids)

    def write_root_link_pose(self, pose: torch.Tensor, mask: torch.Tensor | Sequence[int] | None = None) -> None:
        """Sets the root-link pose (N, 7) in the world frame in the selected environments.

        Raises:
            LabError: the base is fixed.
        """
        self._require_floating_base("pose")
        self._write({"root_link_pose_w": pose}, mask)

    def write_root_com_velocity(self, velocity: torch.Tensor, mask: torch.Tensor | Sequence[int] | None = None) -> None:
        """Sets the velocity (N, 6) of the root's centre of mass in the world frame in the selected environments.

        Raises:
            LabError: the base is fixed.
        """
        self._require_floating_base("velocity")
        self._write({"root_com_vel_w": velocity}, mask)

    def read_state(self, is_relative: bool = False) -> dict[str, torch.Tensor]:
        """Returns the state (N, ...) by the keys that files use: live buffers; relative positions are a copy.

        Args:
            is_relative: Give positions relative to the environments' origins.
        """
        state = {key: getattr(self.data, buffer.name) for key, buffer in self.data.state_keys().items()}
        return self.to_relative(state) if is_relative else state

    def to_relative(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns a state (N, ...), or several as (N, K, ...), with positions relative to the environments' origins."""
        keys, origins = self.data.state_keys(), self._physics.env_origins
        return {
            key: moved(value, origins, -1) if keys[key].kind is Kind.POSE else value for key, value in state.items()
        }

    def write_state(self, state: Mapping[str, torch.Tensor], mask: torch.Tensor, is_relative: bool = False) -> None:
        """Sets a state of :meth:`read_state` in the environments of ``mask`` (N,) bool; a fixed base stays."""
        values = {}
        for key, buffer in self.data.state_keys().items():
            if buffer.per != "root" or not self.data.fixed_base:
                to_world = is_relative and buffer.kind is Kind.POSE
                values[buffer.name] = moved(state[key], self._physics.env_origins) if to_world else state[key]
        self._write(values, mask)

    def _write(
        self,
        values: dict[str, torch.Tensor],
        mask: torch.Tensor | Sequence[int] | None,
        columns: slice | torch.Tensor = slice(None),
    ) -> None:
        resolved = resolve_mask(mask, self._physics.num_envs, self._physics.device)
        for name, value in values.items():
            buffer = getattr(self.data, name)
            target = buffer[:, columns]
            if value.shape != target.shape:
                raise LabError(
                    f"{name} of {self.name!r} has shape {tuple(target.shape)}, got {tuple(value.shape)}. "
                    "Give a row for every environment and select environments with the mask."
                )
            masked_copy_(target, value, resolved)
            if isinstance(columns, torch.Tensor):  # then target is a copy
                buffer[:, columns] = target
        self._physics.mark_written(resolved)

    def _require_floating_base(self, what: str) -> None:
        if self.data.fixed_base:
            raise LabError(f"Cannot write the root {what} of {self.name!r}: its base is fixed to the world.")
