"""One robot in every world: its configuration, and reading and writing its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from lab_core.config import MISSING
from lab_core.errors import LabError
from lab_core.masks import masked_copy_, resolve_mask
from lab_core.names import match_names
from lab_core.scene.actuators import ActuatorCfg
from lab_core.scene.articulation_data import ArticulationData

if TYPE_CHECKING:
    from lab_core.physics import PhysicsBackend


_RANDOMISABLE = (
    *("joint_stiffness", "joint_damping", "joint_armature", "joint_friction"),
    *("body_mass", "body_inertia_b", "body_com_pos_b", "body_friction"),
)


@dataclass(kw_only=True)
class InitialStateCfg:
    """State of a world after a reset, before any reset event."""

    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Root-link position [m], relative to the environment's origin."""
    quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    """Root-link orientation, xyzw."""
    lin_vel: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity of the root's centre of mass, world frame [m/s]."""
    ang_vel: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """World frame [rad/s]."""
    joint_pos: Mapping[str, float] = field(default_factory=dict)
    """Joint name or regular expression -> position [rad or m]; 0 for joints that are not named."""
    joint_vel: Mapping[str, float] = field(default_factory=dict)
    """Joint name or regular expression -> velocity [rad/s or m/s]; 0 for joints that are not named."""


@dataclass(kw_only=True)
class ArticulationCfg:
    """A robot: its model file, its actuators and its default state."""

    asset: str = MISSING
    """Model file: a path, or ``package:path/inside/package``."""
    init_state: InitialStateCfg = field(default_factory=InitialStateCfg)
    actuators: dict[str, ActuatorCfg] = MISSING
    soft_joint_pos_limit_factor: float = 1.0
    """Soft limits are the middle of the range plus and minus this share of half the range."""
    self_collision: bool = True
    """Whether the robot's bodies may touch each other."""
    fixed_base: bool | None = None
    """Whether the root is fixed to the world. None: as the model file says; in a URDF file it is fixed."""


class Articulation:
    """Access to one robot in all worlds.

    State is written into :attr:`data` for the worlds of a mask; other rows stay bitwise unchanged. Positions of
    bodies and body-frame velocities follow at the next ``physics.forward()``, which environments call after reset
    events and after interval events.
    """

    def __init__(self, name: str, cfg: ArticulationCfg, data: ArticulationData, physics: PhysicsBackend) -> None:
        self.name = name
        self.cfg = cfg
        self.data = data
        self.default_properties = {name: getattr(data, name).clone() for name in _RANDOMISABLE}
        """Properties as built, by their names in :attr:`data`: what randomisation starts from, however often."""
        self._physics = physics

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.data.joint_names

    @property
    def body_names(self) -> tuple[str, ...]:
        return self.data.body_names

    def find_joints(self, patterns: str | Sequence[str], preserve_order: bool = False) -> list[int]:
        """Returns joint indices; see :func:`match_names`."""
        return match_names(patterns, self.joint_names, what=f"joint of {self.name!r}", preserve_order=preserve_order)

    def find_bodies(self, patterns: str | Sequence[str], preserve_order: bool = False) -> list[int]:
        """Returns body indices; see :func:`match_names`."""
        return match_names(patterns, self.body_names, what=f"body of {self.name!r}", preserve_order=preserve_order)

    def write_joint_state(
        self,
        position: torch.Tensor,
        velocity: torch.Tensor,
        mask: torch.Tensor | Sequence[int] | None = None,
        joint_ids: slice | torch.Tensor = slice(None),
    ) -> None:
        """Sets positions and velocities (N, J) of joints, all or those of ``joint_ids``, in the selected worlds."""
        self._write({"joint_pos": position, "joint_vel": velocity}, mask, joint_ids)

    def write_root_link_pose(self, pose: torch.Tensor, mask: torch.Tensor | Sequence[int] | None = None) -> None:
        """Sets the root-link pose (N, 7) in the world frame of the selected worlds.

        Raises:
            LabError: the articulation's base is fixed.
        """
        self._require_floating_base("pose")
        self._write({"root_link_pose_w": pose}, mask)

    def write_root_com_velocity(self, velocity: torch.Tensor, mask: torch.Tensor | Sequence[int] | None = None) -> None:
        """Sets the velocity (N, 6) of the root's centre of mass in the world frame of the selected worlds.

        Raises:
            LabError: the articulation's base is fixed.
        """
        self._require_floating_base("velocity")
        self._write({"root_com_vel_w": velocity}, mask)

    def write_default_state(self, env_origins: torch.Tensor, mask: torch.Tensor | Sequence[int] | None = None) -> None:
        """Puts the selected worlds into the default state at their origins (N, 3); clears targets and efforts."""
        data = self.data
        values = {"joint_pos": data.default_joint_pos, "joint_vel": data.default_joint_vel}
        if not data.fixed_base:
            pose = data.default_root_pose.clone()
            pose[:, :3] += env_origins
            values |= {"root_link_pose_w": pose, "root_com_vel_w": data.default_root_vel}
        resolved = self._write(values, mask)
        masked_copy_(data.joint_pos_target, data.default_joint_pos, resolved)
        for buffer in (data.joint_vel_target, data.joint_effort_target, data.applied_effort, data.joint_acc):
            masked_copy_(buffer, 0.0, resolved)

    def _write(
        self,
        values: dict[str, torch.Tensor],
        mask: torch.Tensor | Sequence[int] | None,
        columns: slice | torch.Tensor = slice(None),
    ) -> torch.Tensor:
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
        return resolved

    def _require_floating_base(self, what: str) -> None:
        if self.data.fixed_base:
            raise LabError(f"Cannot write the root {what} of {self.name!r}: its base is fixed to the world.")
