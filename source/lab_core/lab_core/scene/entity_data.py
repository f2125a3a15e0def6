"""State and properties of an entity in all environments, as tensors that keep their addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import torch

from lab_core.masks import masked_copy_
from lab_core.scene.buffers import Buffer, Kind, Notice, Role


class EntityData:
    """Tensors of one entity in N environments: what every kind has. A kind's own class declares more.

    These classes are the one place that names the buffers: what each is, per what, its unit, who writes it. Per root
    they are (N, ...), per body (N, B, ...), where the dots are what :class:`Kind` adds.

    Every tensor is contiguous and is written in place for the life of the backend. World frame: z up; quaternions
    xyzw. ``_w``: world frame; ``_b``: root-link frame. ``link``: the body's frame origin; ``com``: its centre of mass.
    Units: m, rad, s, kg, N, N m.

    It is the physics' part of a state, not that of whoever holds it, such as a term: hence it is not
    :class:`lab_core.state.Stateful`.
    """

    root_link_pose_w = Buffer(Role.STATE, "root", Kind.POSE, "m", reset="default_root_pose", key="root_pose")
    """Where the root link stands."""
    root_com_vel_w = Buffer(
        Role.STATE, "root", Kind.SPATIAL, "m/s, rad/s", reset="default_root_vel", key="root_velocity"
    )
    """Velocity of the root's centre of mass."""

    root_link_vel_w = Buffer(Role.DERIVED, "root", Kind.SPATIAL, "m/s, rad/s")
    """Velocity of the root's frame origin."""
    root_com_lin_vel_b = Buffer(Role.DERIVED, "root", Kind.VECTOR, "m/s")
    """Linear part of ``root_com_vel_w`` in the root-link frame."""
    root_link_lin_vel_b = Buffer(Role.DERIVED, "root", Kind.VECTOR, "m/s")
    """Linear part of ``root_link_vel_w`` in the root-link frame."""
    root_ang_vel_b = Buffer(Role.DERIVED, "root", Kind.VECTOR, "rad/s")
    """Angular velocity of the root in the root-link frame."""
    projected_gravity_b = Buffer(Role.DERIVED, "root", Kind.DIRECTION, "1")
    """Direction of gravity in the root-link frame."""
    heading_w = Buffer(Role.DERIVED, "root", Kind.ANGLE, "rad")
    """Yaw of the root's x axis."""
    body_link_pose_w = Buffer(Role.DERIVED, "body", Kind.POSE, "m")
    """Where the bodies' links stand."""
    body_com_vel_w = Buffer(Role.DERIVED, "body", Kind.SPATIAL, "m/s, rad/s")
    """Velocity of each body's centre of mass."""

    default_root_pose = Buffer(Role.DEFAULT, "root", Kind.POSE, "m")
    """Where the root link stands after a reset, relative to the environment's origin."""
    default_root_vel = Buffer(Role.DEFAULT, "root", Kind.SPATIAL, "m/s, rad/s")
    """Velocity of the root's centre of mass after a reset, world frame."""

    body_mass = Buffer(Role.PROPERTY, "body", Kind.NUMBER, "kg", notice=Notice.BODY_INERTIA)
    """Mass of the bodies."""
    body_inertia_b = Buffer(Role.PROPERTY, "body", Kind.MATRIX, "kg m^2", notice=Notice.BODY_INERTIA)
    """Inertia about the centre of mass, in the body's frame."""
    body_com_pos_b = Buffer(Role.PROPERTY, "body", Kind.VECTOR, "m", notice=Notice.BODY_INERTIA)
    """Centre of mass in the body's frame."""
    body_friction = Buffer(Role.PROPERTY, "body", Kind.NUMBER, "1", notice=Notice.BODY_SURFACE)
    """Sliding friction coefficient of the body's collision shapes. In a contact the shape of higher priority decides;
    of equal ones the larger coefficient counts."""

    body_wrench_w = Buffer(Role.DISTURBANCE, "body", Kind.SPATIAL, "N, N m")
    """External force, then torque about the centre of mass, world frame, in every substep until the environment is
    reset."""

    warp: Any = None
    """The same buffers as Warp arrays under the same names, where the backend is built on Warp."""

    def __init__(
        self,
        num_envs: int,
        joint_names: Sequence[str],
        body_names: Sequence[str],
        fixed_base: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocates zeros, and identity quaternions.

        Args:
            num_envs: N.
            joint_names: Names of the J joints, in the order of every buffer; a kind without joints has none.
            body_names: Names of the B bodies, likewise; the first is the root.
            fixed_base: Whether the root is fixed to the world: it then has no state of its own.
            device: Where the tensors lie.
        """
        self.joint_names = tuple(joint_names)
        self.body_names = tuple(body_names)
        self.fixed_base = fixed_base
        sizes = {"joint": self.num_joints, "body": self.num_bodies}
        for name, buffer in self.buffers().items():
            tensor = torch.zeros(num_envs, *buffer.row_shape(sizes), device=device)
            if buffer.kind is Kind.POSE:
                tensor[..., 6] = 1.0
            setattr(self, name, tensor)

    @property
    def num_joints(self) -> int:
        """J."""
        return len(self.joint_names)

    @property
    def num_bodies(self) -> int:
        """B."""
        return len(self.body_names)

    @classmethod
    @cache
    def buffers(cls, *roles: Role) -> Mapping[str, Buffer]:
        """Returns the declarations of the buffers by name, a kind's own ones first; all, or those of ``roles``."""
        return {
            name: getattr(cls, name)
            for base in cls.__mro__
            for name, value in vars(base).items()
            if isinstance(value, Buffer) and (not roles or value.role in roles)
        }

    def tensors(self) -> dict[str, torch.Tensor]:
        """Returns the buffers by name."""
        return {name: getattr(self, name) for name in self.buffers()}

    @classmethod
    @cache
    def state_keys(cls) -> Mapping[str, Buffer]:
        """Returns the buffers that together are the state, by their names in states and files, those of roots first."""
        root_first = sorted(cls.buffers().values(), key=lambda buffer: buffer.per != "root")
        return {buffer.key: buffer for buffer in root_first if buffer.key is not None}

    @classmethod
    @cache
    def notices(cls) -> Mapping[str, Notice]:
        """Returns the properties that an engine must be told about when they change, by name."""
        return {name: buffer.notice for name, buffer in cls.buffers().items() if buffer.notice is not None}

    def write_default_state(self, env_origins: torch.Tensor, mask: torch.Tensor) -> None:
        """Puts the environments of ``mask`` (N,) bool into the default state at their origins (N, 3) [m].

        Clears targets and efforts. This is the meaning of ``reset`` in every declaration; kernels that do the same
        are tested against it.
        """
        for name, buffer in self.buffers().items():
            value = buffer.reset
            if value is None or (buffer.per == "root" and self.fixed_base):
                continue
            if isinstance(value, str):
                value = getattr(self, value)
                if buffer.kind is Kind.POSE:
                    value = moved(value, env_origins)
            masked_copy_(getattr(self, name), value, mask)


def moved(pose: torch.Tensor, offset: torch.Tensor, sign: Literal[1, -1] = 1) -> torch.Tensor:
    """Returns a copy of poses (N, 7) or (N, K, 7) with positions moved by ``sign * offset``, (N, 3) [m]."""
    pose = pose.clone()
    pose[..., :3].add_(offset.view(-1, *[1] * (pose.ndim - 2), 3), alpha=sign)
    return pose
