"""Kernels of motion tracking."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import clamp, multiply_add, quat_apply, quat_conjugate, quat_from_euler_xyz, quat_mul
from lab_warp.mdp import uniform

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def process_action(
    actions: wp.array2d[wp.float32],
    scale: wp.array[wp.float32],
    offset: wp.array[wp.float32],
    low: wp.array[wp.float32],
    high: wp.array[wp.float32],
    adds_default: wp.array[wp.bool],
    default_joint_pos: wp.array2d[wp.float32],
    shown: wp.array2d[wp.float32],
    joints: wp.array[wp.int32],
    processed: wp.array2d[wp.float32],
):
    """Around the default, and unless ``adds_default`` around the motion as well. Launch over (N, action_dim)."""
    env, column = wp.tid()
    joint = joints[column]
    value = multiply_add(actions[env, column], scale[column], offset[column])
    added = default_joint_pos[env, joint]
    if not adds_default[0]:
        added = shown[env, joint] + added
    processed[env, column] = clamp(value + added, low[column], high[column])


@wp.kernel
def choose_start(
    clips_in_turn: wp.int32, from_first_frame: wp.bool, clip: wp.array[wp.int64], frame: wp.array[wp.int64]
):
    """Puts in the place of what was drawn one of ``clips_in_turn`` clips, if any, and its first frame. Launch over
    N."""
    env = wp.tid()
    if clips_in_turn > 0:
        clip[env] = wp.int64(env % clips_in_turn)
    if from_first_frame:
        frame[env] = wp.int64(0)


@wp.kernel
def reset_to_shown(
    mask: wp.array[wp.bool],
    shown: wp.array2d[wp.float32],
    env_origins: wp.array[wp.vec3],
    com: wp.array2d[wp.vec3],
    limits: wp.array2d[wp.vec2],
    pose_low: wp.spatial_vector,
    pose_high: wp.spatial_vector,
    vel_low: wp.spatial_vector,
    vel_high: wp.spatial_vector,
    joint_range: wp.vec2,
    rng_state: wp.array[wp.uint32],
    root_pose: wp.array[wp.transform],
    root_vel: wp.array[wp.spatial_vector],
    joint_pos: wp.array2d[wp.float32],
    joint_vel: wp.array2d[wp.float32],
    written: wp.array[wp.bool],
):
    """Puts robots where the motion is that ``shown`` (N, D) holds, as ``MotionTarget.pack`` lays it out. Launch over
    N."""
    env = wp.tid()
    if not mask[env]:
        return
    pose, rng = uniform(pose_low, pose_high, rng_state[env])
    velocity, rng = uniform(vel_low, vel_high, rng)
    joints = joint_pos.shape[1]
    at = 2 * joints
    pos = wp.vec3(shown[env, at], shown[env, at + 1], shown[env, at + 2])
    quat = wp.quat(shown[env, at + 3], shown[env, at + 4], shown[env, at + 5], shown[env, at + 6])
    lin = wp.vec3(shown[env, at + 7], shown[env, at + 8], shown[env, at + 9]) + wp.spatial_top(velocity)
    ang = wp.vec3(shown[env, at + 10], shown[env, at + 11], shown[env, at + 12]) + wp.spatial_bottom(velocity)
    turned = quat_mul(quat_from_euler_xyz(pose[3], pose[4], pose[5]), quat)
    root_pose[env] = wp.transform(pos + env_origins[env] + wp.spatial_top(pose), turned)
    root_vel[env] = wp.spatial_vector(lin + wp.cross(ang, quat_apply(turned, com[env, 0])), ang)
    for joint in range(joints):
        limit = limits[env, joint]
        drawn = shown[env, joint] + wp.randf(rng, joint_range[0], joint_range[1])
        joint_pos[env, joint] = clamp(drawn, limit[0], limit[1])
        joint_vel[env, joint] = shown[env, joints + joint]
    rng_state[env] = rng
    written[env] = True


@wp.func
def write_two_columns(quat: wp.quat, env: wp.int32, start: wp.int32, out: wp.array2d[wp.float32]):
    """Writes the first two columns of the matrix of ``quat``, row by row."""
    x = quat_apply(quat, wp.vec3(1.0, 0.0, 0.0))
    y = quat_apply(quat, wp.vec3(0.0, 1.0, 0.0))
    for row in range(3):
        out[env, start + 2 * row] = x[row]
        out[env, start + 2 * row + 1] = y[row]


@wp.kernel
def motion_anchor_pos(
    pose: wp.array2d[wp.transform],
    env_origins: wp.array[wp.vec3],
    body_pos: wp.array2d[wp.vec3],
    body_quat: wp.array2d[wp.quat],
    bodies: wp.array[wp.int64],
    anchor: wp.int32,
    out: wp.array2d[wp.float32],
):
    """Launch over N."""
    env = wp.tid()
    own = pose[env, wp.int32(bodies[anchor])]
    arm = body_pos[env, anchor] - (wp.transform_get_translation(own) - env_origins[env])
    found = quat_apply(quat_conjugate(wp.transform_get_rotation(own)), arm)
    for i in range(3):
        out[env, i] = found[i]


@wp.kernel
def motion_anchor_ori(
    pose: wp.array2d[wp.transform],
    env_origins: wp.array[wp.vec3],
    body_pos: wp.array2d[wp.vec3],
    body_quat: wp.array2d[wp.quat],
    bodies: wp.array[wp.int64],
    anchor: wp.int32,
    out: wp.array2d[wp.float32],
):
    """Launch over N."""
    env = wp.tid()
    own = wp.transform_get_rotation(pose[env, wp.int32(bodies[anchor])])
    write_two_columns(quat_mul(quat_conjugate(own), body_quat[env, anchor]), env, 0, out)


@wp.kernel
def robot_body_pos(
    pose: wp.array2d[wp.transform], bodies: wp.array[wp.int64], anchor: wp.int32, out: wp.array2d[wp.float32]
):
    """Launch over (N, B)."""
    env, body = wp.tid()
    frame = pose[env, wp.int32(bodies[anchor])]
    arm = wp.transform_get_translation(pose[env, wp.int32(bodies[body])]) - wp.transform_get_translation(frame)
    found = quat_apply(quat_conjugate(wp.transform_get_rotation(frame)), arm)
    for i in range(3):
        out[env, 3 * body + i] = found[i]


@wp.kernel
def robot_body_ori(
    pose: wp.array2d[wp.transform], bodies: wp.array[wp.int64], anchor: wp.int32, out: wp.array2d[wp.float32]
):
    """Launch over (N, B)."""
    env, body = wp.tid()
    frame = wp.transform_get_rotation(pose[env, wp.int32(bodies[anchor])])
    own = wp.transform_get_rotation(pose[env, wp.int32(bodies[body])])
    write_two_columns(quat_mul(quat_conjugate(frame), own), env, 6 * body, out)


@wp.kernel
def copy_vector(vector: wp.array[wp.vec3], out: wp.array2d[wp.float32]):
    """Launch over N."""
    env = wp.tid()
    for i in range(3):
        out[env, i] = vector[env][i]
