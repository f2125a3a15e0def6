"""Kernels of the ant as a class, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_tasks.ant.mdp_kernels import approach, move_to_target, unit, vector_to_target
from lab_warp.math_kernels import at_least_zero, clamp, euler_xyz_from_quat, normalized_position, square, wrap_to_pi

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.func
def heading_proj(pose: wp.transform, to_target: wp.vec2) -> wp.float32:
    """Component of the torso's x axis along the direction to the target."""
    q = wp.transform_get_rotation(pose)
    direction = unit(to_target)
    x_axis_x = 1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2])
    x_axis_y = 2.0 * (q[0] * q[1] + q[3] * q[2])
    return x_axis_x * direction[0] + x_axis_y * direction[1]


@wp.kernel
def drive(actions: wp.array2d[wp.float32], scale: wp.float32, efforts: wp.array2d[wp.float32]):
    env = wp.tid()
    for joint in range(actions.shape[1]):
        efforts[env, joint] = clamp(actions[env, joint], -1.0, 1.0) * scale


@wp.kernel
def observe(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    lin_vels: wp.array[wp.vec3],
    ang_vels: wp.array[wp.vec3],
    gravity: wp.array[wp.vec3],
    headings: wp.array[wp.float32],
    joint_pos: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    joint_vel: wp.array2d[wp.float32],
    default_vel: wp.array2d[wp.float32],
    wrenches: wp.array2d[wp.spatial_vector],
    actions: wp.array2d[wp.float32],
    out: wp.array2d[wp.float32],
):
    env = wp.tid()
    pose = poses[env]
    to_target = vector_to_target(pose, origins[env], target)
    angles = euler_xyz_from_quat(wp.transform_get_rotation(pose))
    out[env, 0] = pose[2]
    for axis in range(3):
        out[env, 1 + axis] = lin_vels[env][axis]
        out[env, 4 + axis] = ang_vels[env][axis]
    out[env, 7] = angles[2]
    out[env, 8] = angles[0]
    out[env, 9] = wrap_to_pi(wp.atan2(to_target[1], to_target[0]) - headings[env])
    out[env, 10] = -gravity[env][2]
    out[env, 11] = heading_proj(pose, to_target)

    column = wp.int32(12)
    joints = joint_pos.shape[1]
    for joint in range(joints):
        out[env, column + joint] = normalized_position(joint_pos[env, joint], limits[env, joint])
        out[env, column + joints + joint] = 0.2 * (joint_vel[env, joint] - default_vel[env, joint])
    column += 2 * joints
    for foot in range(wrenches.shape[1]):
        for axis in range(6):
            out[env, column + axis] = 0.1 * wrenches[env, foot][axis]
        column += 6
    for joint in range(joints):
        out[env, column + joint] = actions[env, joint]


@wp.kernel
def reward(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    gravity: wp.array[wp.vec3],
    joint_pos: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    joint_vel: wp.array2d[wp.float32],
    actions: wp.array2d[wp.float32],
    terminated: wp.array[wp.bool],
    non_finite: wp.array[wp.bool],
    dt: wp.float32,
    last_positions: wp.array[wp.vec2],
    out: wp.array[wp.float32],
):
    """The positions of the step before are replaced by the new ones."""
    env = wp.tid()
    pose = poses[env]
    to_target = vector_to_target(pose, origins[env], target)
    position = wp.vec2(pose[0], pose[1])
    progress = approach(position - last_positions[env], to_target) / dt
    if non_finite[env]:
        progress = 0.0  # it was put back to its default state
    last_positions[env] = position

    effort = wp.float32(0.0)
    power = wp.float32(0.0)
    beyond = wp.float32(0.0)
    for joint in range(actions.shape[1]):
        action = actions[env, joint]
        effort += square(action)
        power += wp.abs(action * joint_vel[env, joint])
        normalized = wp.abs(normalized_position(joint_pos[env, joint], limits[env, joint]))
        beyond += at_least_zero((normalized - 0.99) / 0.01)
    ended = wp.float32(terminated[env])
    rate = (
        progress
        + 0.5 * (1.0 - ended)
        + 0.1 * wp.float32(gravity[env][2] < -0.93)
        + 0.5 * move_to_target(heading_proj(pose, to_target), 0.8)
        - 0.005 * effort
        - 0.05 * power
        - 0.1 * beyond
    )
    out[env] = rate * dt - 2.0 * ended


@wp.kernel
def end(
    poses: wp.array[wp.transform],
    minimum_height: wp.float32,
    steps: wp.array[wp.int64],
    longest: wp.int64,
    terminated: wp.array[wp.bool],
    time_outs: wp.array[wp.bool],
):
    env = wp.tid()
    terminated[env] = poses[env][2] < minimum_height
    time_outs[env] = steps[env] >= longest


@wp.kernel
def begin_episode(
    mask: wp.array[wp.bool],
    poses: wp.array[wp.transform],
    time_outs: wp.array[wp.bool],
    last_positions: wp.array[wp.vec2],
    survived: wp.array2d[wp.float32],
):
    env = wp.tid()
    survived[env, 0] = wp.float32(time_outs[env])
    if mask[env]:
        last_positions[env] = wp.vec2(poses[env][0], poses[env][1])
