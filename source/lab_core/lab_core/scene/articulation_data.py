"""What an articulation has besides what every entity has."""

from __future__ import annotations

import torch

from lab_core.scene.buffers import Buffer, Kind, Notice, Role
from lab_core.scene.entity_data import EntityData


class ArticulationData(EntityData):
    """Tensors of one articulation: N environments, J joints, B bodies.

    Per joint they are (N, J, ...); units are those of a hinge or a slide.
    """

    joint_pos = Buffer(Role.STATE, "joint", Kind.NUMBER, "rad or m", reset="default_joint_pos", key="joint_position")
    """Positions of the joints."""
    joint_vel = Buffer(
        Role.STATE, "joint", Kind.NUMBER, "rad/s or m/s", reset="default_joint_vel", key="joint_velocity"
    )
    """Velocities of the joints."""

    joint_acc = Buffer(Role.DERIVED, "joint", Kind.NUMBER, "rad/s^2 or m/s^2", reset=0.0)
    """Change of joint velocity over the last environment step, per second."""

    joint_pos_target = Buffer(Role.TARGET, "joint", Kind.NUMBER, "rad or m", reset="default_joint_pos")
    """Position that an actuator steers to."""
    joint_vel_target = Buffer(Role.TARGET, "joint", Kind.NUMBER, "rad/s or m/s", reset=0.0)
    """Velocity that an actuator steers to."""
    joint_effort_target = Buffer(Role.TARGET, "joint", Kind.NUMBER, "N m or N", reset=0.0)
    """Feed-forward effort."""

    applied_effort = Buffer(Role.DERIVED, "joint", Kind.NUMBER, "N m or N", reset=0.0)
    """Effort that the solver received in the last substep, after clipping."""

    default_joint_pos = Buffer(Role.DEFAULT, "joint", Kind.NUMBER, "rad or m")
    """Positions of the joints after a reset."""
    default_joint_vel = Buffer(Role.DEFAULT, "joint", Kind.NUMBER, "rad/s or m/s")
    """Velocities of the joints after a reset."""

    joint_pos_limits = Buffer(Role.LIMIT, "joint", Kind.RANGE, "rad or m")
    """Limits of the joints; infinite where unlimited."""
    soft_joint_pos_limits = Buffer(Role.LIMIT, "joint", Kind.RANGE, "rad or m")
    """Limits shrunk about their middle by the configured factor."""
    joint_effort_limits = Buffer(Role.LIMIT, "joint", Kind.NUMBER, "N m or N")
    """Effort limit of the actuator; 0 for joints without an actuator."""
    joint_saturation_efforts = Buffer(Role.LIMIT, "joint", Kind.NUMBER, "N m or N")
    """Stall effort of the motor; infinite for actuators without a torque-speed line."""
    joint_velocity_limits = Buffer(Role.LIMIT, "joint", Kind.NUMBER, "rad/s or m/s")
    """No-load speed of the motor; infinite for actuators without a torque-speed line."""

    joint_stiffness = Buffer(Role.PROPERTY, "joint", Kind.NUMBER, "N m/rad or N/m")
    """Gain of the actuator on position."""
    joint_damping = Buffer(Role.PROPERTY, "joint", Kind.NUMBER, "N m s/rad or N s/m")
    """Gain of the actuator on velocity."""
    joint_armature = Buffer(Role.PROPERTY, "joint", Kind.NUMBER, "kg m^2 or kg", notice=Notice.JOINT_INERTIA)
    """Inertia of the drive, seen at the joint."""
    joint_friction = Buffer(Role.PROPERTY, "joint", Kind.NUMBER, "N m or N", notice=Notice.JOINT_FORCE)
    """Largest dry friction effort in the joint."""

    def link_pose_w(self, body: int) -> torch.Tensor:
        """Returns the pose (N, 7) of one body; terms that read no other cost imagination less than with
        :attr:`body_link_pose_w`."""
        return self.body_link_pose_w[:, body]
