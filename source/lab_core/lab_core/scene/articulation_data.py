"""State and properties of one articulation in all worlds, as tensors that keep their addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(eq=False)
class ArticulationData:
    """Tensors of one articulation: N worlds, J joints, B bodies.

    Every tensor is contiguous and is written in place for the life of the backend. World frame: z up; quaternions
    xyzw. ``_w``: world frame; ``_b``: root-link frame. ``link``: the body's frame origin; ``com``: its centre of mass.
    Velocities are linear, then angular. Units: m, rad, s, kg, N, N m; joint units are those of a hinge or a slide.
    """

    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    fixed_base: bool

    # State: authored by environments through the articulation's write methods, filled by every physics step.
    joint_pos: torch.Tensor
    """(N, J) [rad or m]."""
    joint_vel: torch.Tensor
    """(N, J) [rad/s or m/s]."""
    root_link_pose_w: torch.Tensor
    """(N, 7) position, quaternion."""
    root_com_vel_w: torch.Tensor
    """(N, 6) velocity of the root's centre of mass [m/s, rad/s]."""

    # Derived state.
    joint_acc: torch.Tensor
    """(N, J) change of joint velocity over the last control step, per second [rad/s^2 or m/s^2]."""
    root_link_vel_w: torch.Tensor
    """(N, 6) velocity of the root's frame origin [m/s, rad/s]."""
    root_com_lin_vel_b: torch.Tensor
    """(N, 3) [m/s]."""
    root_link_lin_vel_b: torch.Tensor
    """(N, 3) [m/s]."""
    root_ang_vel_b: torch.Tensor
    """(N, 3) [rad/s]."""
    projected_gravity_b: torch.Tensor
    """(N, 3) unit vector of gravity in the root-link frame."""
    heading_w: torch.Tensor
    """(N,) yaw of the root's x axis [rad]."""
    body_link_pose_w: torch.Tensor
    """(N, B, 7)."""
    body_com_vel_w: torch.Tensor
    """(N, B, 6) velocity of each body's centre of mass [m/s, rad/s]."""

    # Targets and efforts.
    joint_pos_target: torch.Tensor
    """(N, J) [rad or m]."""
    joint_vel_target: torch.Tensor
    """(N, J) [rad/s or m/s]."""
    joint_effort_target: torch.Tensor
    """(N, J) feed-forward effort [N m or N]."""
    applied_effort: torch.Tensor
    """(N, J) effort that the solver received in the last substep, after clipping [N m or N]."""

    # Properties.
    default_joint_pos: torch.Tensor
    """(N, J) [rad or m]."""
    default_joint_vel: torch.Tensor
    """(N, J) [rad/s or m/s]."""
    default_root_pose: torch.Tensor
    """(N, 7) relative to the environment's origin."""
    default_root_vel: torch.Tensor
    """(N, 6) velocity of the root's centre of mass, world frame [m/s, rad/s]."""
    joint_pos_limits: torch.Tensor
    """(N, J, 2) lower, upper [rad or m]; infinite where unlimited."""
    soft_joint_pos_limits: torch.Tensor
    """(N, J, 2) limits shrunk about their middle by the configured factor [rad or m]."""
    joint_effort_limits: torch.Tensor
    """(N, J) actuator effort limit [N m or N]; 0 for joints without an actuator."""
    joint_saturation_efforts: torch.Tensor
    """(N, J) stall effort of the motor [N m or N]; infinite for actuators without a torque-speed line."""
    joint_velocity_limits: torch.Tensor
    """(N, J) no-load speed of the motor [rad/s or m/s]; infinite for actuators without a torque-speed line."""
    joint_stiffness: torch.Tensor
    """(N, J) actuator gain [N m/rad or N/m]."""
    joint_damping: torch.Tensor
    """(N, J) actuator damping [N m s/rad or N s/m]."""
    joint_armature: torch.Tensor
    """(N, J) [kg m^2 or kg]."""
    joint_friction: torch.Tensor
    """(N, J) largest dry friction effort in the joint [N m or N]."""
    body_mass: torch.Tensor
    """(N, B) [kg]."""
    body_com_pos_b: torch.Tensor
    """(N, B, 3) centre of mass in the body's frame [m]."""
    body_inertia_b: torch.Tensor
    """(N, B, 3, 3) about the centre of mass, in the body's frame [kg m^2]."""
    body_friction: torch.Tensor
    """(N, B) sliding friction coefficient of the body's collision shapes. In a contact the shape of higher priority
    decides; of equal ones the larger coefficient counts."""

    # Disturbances.
    body_wrench_w: torch.Tensor
    """(N, B, 6) external force [N], then torque about the centre of mass [N m], world frame, in every substep until the
    world is reset."""

    warp: Any = None
    """The same buffers as Warp arrays under the same names, where the backend is built on Warp."""

    @property
    def num_joints(self) -> int:
        return len(self.joint_names)

    @property
    def num_bodies(self) -> int:
        return len(self.body_names)

    @classmethod
    def allocate(
        cls,
        num_envs: int,
        joint_names: Sequence[str],
        body_names: Sequence[str],
        fixed_base: bool,
        device: torch.device | str,
    ) -> ArticulationData:
        """Returns zeroed buffers (identity quaternions)."""
        shapes = row_shapes(len(joint_names), len(body_names))
        tensors = {name: torch.zeros(num_envs, *shape, device=device) for name, shape in shapes.items()}
        for name in ("root_link_pose_w", "default_root_pose", "body_link_pose_w"):
            tensors[name][..., 6] = 1.0
        return cls(joint_names=tuple(joint_names), body_names=tuple(body_names), fixed_base=fixed_base, **tensors)


def row_shapes(num_joints: int, num_bodies: int) -> dict[str, tuple[int, ...]]:
    """Returns the shape of one world's row of every tensor in :class:`ArticulationData`."""
    joint, limits, body = (num_joints,), (num_joints, 2), (num_bodies,)
    return {
        "joint_pos": joint,
        "joint_vel": joint,
        "root_link_pose_w": (7,),
        "root_com_vel_w": (6,),
        "joint_acc": joint,
        "root_link_vel_w": (6,),
        "root_com_lin_vel_b": (3,),
        "root_link_lin_vel_b": (3,),
        "root_ang_vel_b": (3,),
        "projected_gravity_b": (3,),
        "heading_w": (),
        "body_link_pose_w": (*body, 7),
        "body_com_vel_w": (*body, 6),
        "joint_pos_target": joint,
        "joint_vel_target": joint,
        "joint_effort_target": joint,
        "applied_effort": joint,
        "default_joint_pos": joint,
        "default_joint_vel": joint,
        "default_root_pose": (7,),
        "default_root_vel": (6,),
        "joint_pos_limits": limits,
        "soft_joint_pos_limits": limits,
        "joint_effort_limits": joint,
        "joint_saturation_efforts": joint,
        "joint_velocity_limits": joint,
        "joint_stiffness": joint,
        "joint_damping": joint,
        "joint_armature": joint,
        "joint_friction": joint,
        "body_mass": body,
        "body_com_pos_b": (*body, 3),
        "body_inertia_b": (*body, 3, 3),
        "body_friction": body,
        "body_wrench_w": (*body, 6),
    }
