"""State and properties of one articulation in all environments, as tensors that keep their addresses."""

from __future__ import annotations

from lab_core.scene.buffers import Buffer, EntityData, Kind, Notice, Role


class ArticulationData(EntityData):
    """Tensors of one articulation: N environments, J joints, B bodies.

    This is the one place that names its buffers: what each is, per what, its unit, who writes it. Per root they are
    (N, ...), per joint (N, J, ...), per body (N, B, ...), where the dots are what :class:`Kind` adds. Joint units are
    those of a hinge or a slide.
    """

    root_link_pose_w = Buffer(Role.STATE, "root", Kind.POSE, "m", reset="default_root_pose", key="root_pose")
    """Where the root link stands."""
    root_com_vel_w = Buffer(
        Role.STATE, "root", Kind.SPATIAL, "m/s, rad/s", reset="default_root_vel", key="root_velocity"
    )
    """Velocity of the root's centre of mass."""
    joint_pos = Buffer(Role.STATE, "joint", Kind.NUMBER, "rad or m", reset="default_joint_pos", key="joint_position")
    """Positions of the joints."""
    joint_vel = Buffer(
        Role.STATE, "joint", Kind.NUMBER, "rad/s or m/s", reset="default_joint_vel", key="joint_velocity"
    )
    """Velocities of the joints."""

    joint_acc = Buffer(Role.DERIVED, "joint", Kind.NUMBER, "rad/s^2 or m/s^2", reset=0.0)
    """Change of joint velocity over the last control step, per second."""
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
    default_root_pose = Buffer(Role.DEFAULT, "root", Kind.POSE, "m")
    """Where the root link stands after a reset, relative to the environment's origin."""
    default_root_vel = Buffer(Role.DEFAULT, "root", Kind.SPATIAL, "m/s, rad/s")
    """Velocity of the root's centre of mass after a reset, world frame."""

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
