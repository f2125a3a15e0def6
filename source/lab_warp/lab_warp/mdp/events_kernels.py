"""Kernels of the events that write states, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import clamp, quat_from_euler_xyz, quat_mul
from lab_warp.mdp.draws_kernels import any_rotation, uniform

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def draw_joint_state(
    mask: wp.array[wp.bool],
    joints: wp.array[wp.int32],
    default_pos: wp.array2d[wp.float32],
    default_vel: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    pos_range: wp.vec2,
    vel_range: wp.vec2,
    scales: wp.bool,
    rng_state: wp.array[wp.uint32],
    joint_pos: wp.array2d[wp.float32],
    joint_vel: wp.array2d[wp.float32],
    written: wp.array[wp.bool],
):
    """Default plus, or times, a draw. Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    for k in range(joints.shape[0]):
        joint = joints[k]
        position = wp.randf(rng, pos_range[0], pos_range[1])
        velocity = wp.randf(rng, vel_range[0], vel_range[1])
        if scales:
            position = default_pos[env, joint] * position
            velocity = default_vel[env, joint] * velocity
        else:
            position = default_pos[env, joint] + position
            velocity = default_vel[env, joint] + velocity
        joint_pos[env, joint] = clamp(position, limits[env, joint][0], limits[env, joint][1])
        joint_vel[env, joint] = velocity
    rng_state[env] = rng
    written[env] = True


@wp.kernel
def draw_joints_within_limits(
    mask: wp.array[wp.bool],
    joints: wp.array[wp.int32],
    default_pos: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    fraction: wp.float32,
    rng_state: wp.array[wp.uint32],
    joint_pos: wp.array2d[wp.float32],
    joint_vel: wp.array2d[wp.float32],
    written: wp.array[wp.bool],
):
    """Default, part of the way towards a point between the limits. Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    for k in range(joints.shape[0]):
        joint = joints[k]
        low = limits[env, joint][0]
        high = limits[env, joint][1]
        point = low + (high - low) * wp.randf(rng)
        default = default_pos[env, joint]
        joint_pos[env, joint] = clamp(default + fraction * (point - default), low, high)
        joint_vel[env, joint] = 0.0
    rng_state[env] = rng
    written[env] = True


@wp.kernel
def draw_root_state(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    default_pose: wp.array[wp.transform],
    default_vel: wp.array[wp.spatial_vector],
    pose_low: wp.spatial_vector,
    pose_high: wp.spatial_vector,
    vel_low: wp.spatial_vector,
    vel_high: wp.spatial_vector,
    rng_state: wp.array[wp.uint32],
    root_pose: wp.array[wp.transform],
    root_vel: wp.array[wp.spatial_vector],
    written: wp.array[wp.bool],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    pose, rng = uniform(pose_low, pose_high, rng_state[env])
    velocity, rng = uniform(vel_low, vel_high, rng)
    rng_state[env] = rng
    default = default_pose[env]
    root_pose[env] = wp.transform(
        wp.transform_get_translation(default) + env_origins[env] + wp.spatial_top(pose),
        quat_mul(wp.transform_get_rotation(default), quat_from_euler_xyz(pose[3], pose[4], pose[5])),
    )
    root_vel[env] = default_vel[env] + velocity
    written[env] = True


@wp.kernel
def draw_root_state_with_random_orientation(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    default_pose: wp.array[wp.transform],
    default_vel: wp.array[wp.spatial_vector],
    pose_low: wp.spatial_vector,
    pose_high: wp.spatial_vector,
    vel_low: wp.spatial_vector,
    vel_high: wp.spatial_vector,
    rng_state: wp.array[wp.uint32],
    root_pose: wp.array[wp.transform],
    root_vel: wp.array[wp.spatial_vector],
    written: wp.array[wp.bool],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    pose, rng = uniform(pose_low, pose_high, rng_state[env])
    orientation, rng = any_rotation(rng)
    velocity, rng = uniform(vel_low, vel_high, rng)
    rng_state[env] = rng
    position = wp.transform_get_translation(default_pose[env]) + env_origins[env] + wp.spatial_top(pose)
    root_pose[env] = wp.transform(position, orientation)
    root_vel[env] = default_vel[env] + velocity
    written[env] = True


@wp.func
def node_at(along: wp.float32, spacing: wp.float32, nodes: wp.int32) -> wp.int32:
    """Index of the nearest of ``nodes`` nodes around 0."""
    return wp.int32(clamp(wp.floor(along / spacing + 0.5 * wp.float32(nodes)), 0.0, wp.float32(nodes - 1)))


@wp.kernel
def draw_root_state_above_ground(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    default_pose: wp.array[wp.transform],
    default_vel: wp.array[wp.spatial_vector],
    pose_low: wp.spatial_vector,
    pose_high: wp.spatial_vector,
    vel_low: wp.spatial_vector,
    vel_high: wp.spatial_vector,
    highest: wp.array2d[wp.float32],
    spacing: wp.float32,
    rng_state: wp.array[wp.uint32],
    root_pose: wp.array[wp.transform],
    root_vel: wp.array[wp.spatial_vector],
    written: wp.array[wp.bool],
):
    """The height is drawn above what ``highest`` (X, Y) says of the ground around each node. Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    pose, rng = uniform(pose_low, pose_high, rng_state[env])
    velocity, rng = uniform(vel_low, vel_high, rng)
    rng_state[env] = rng
    default = default_pose[env]
    position = wp.transform_get_translation(default) + env_origins[env] + wp.spatial_top(pose)
    i = node_at(position[0], spacing, highest.shape[0])
    j = node_at(position[1], spacing, highest.shape[1])
    root_pose[env] = wp.transform(
        wp.vec3(position[0], position[1], highest[i, j] + pose[2]),
        quat_mul(wp.transform_get_rotation(default), quat_from_euler_xyz(pose[3], pose[4], pose[5])),
    )
    root_vel[env] = default_vel[env] + velocity
    written[env] = True


@wp.kernel
def push(
    mask: wp.array[wp.bool],
    low: wp.spatial_vector,
    high: wp.spatial_vector,
    rng_state: wp.array[wp.uint32],
    root_vel: wp.array[wp.spatial_vector],
    written: wp.array[wp.bool],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    velocity, rng = uniform(low, high, rng_state[env])
    rng_state[env] = rng
    root_vel[env] = root_vel[env] + velocity
    written[env] = True
