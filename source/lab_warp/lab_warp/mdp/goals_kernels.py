"""Kernels of terms of goals, one thread per environment."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import quat_conjugate, quat_error_magnitude, quat_mul

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def quaternion_from_goal(poses: wp.array[wp.transform], goals: wp.array2d[wp.float32], out: wp.array2d[wp.float32]):
    env = wp.tid()
    difference = quat_mul(wp.transform_get_rotation(poses[env]), quat_conjugate(goal_quat(goals, env)))
    for i in range(4):
        out[env, i] = difference[i]


@wp.kernel
def distance(
    poses: wp.array[wp.transform],
    goals: wp.array2d[wp.float32],
    origins: wp.array[wp.vec3],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    out[env] = distance_to_goal(poses, goals, origins, env)


@wp.kernel
def is_away(
    poses: wp.array[wp.transform],
    goals: wp.array2d[wp.float32],
    origins: wp.array[wp.vec3],
    threshold: wp.float32,
    out: wp.array[wp.bool],
):
    env = wp.tid()
    out[env] = distance_to_goal(poses, goals, origins, env) >= threshold


@wp.kernel
def inverse_angle(
    poses: wp.array[wp.transform], goals: wp.array2d[wp.float32], epsilon: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    error = quat_error_magnitude(wp.transform_get_rotation(poses[env]), goal_quat(goals, env))
    out[env] = 1.0 / (error + epsilon)


@wp.kernel
def reached(
    poses: wp.array[wp.transform],
    goals: wp.array2d[wp.float32],
    tolerance: wp.array[wp.float32],
    is_given: wp.array[wp.bool],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    error = quat_error_magnitude(wp.transform_get_rotation(poses[env]), goal_quat(goals, env))
    out[env] = 0.0
    if error <= tolerance[0] and not is_given[env]:
        out[env] = 1.0


@wp.func
def goal_quat(goals: wp.array2d[wp.float32], env: wp.int32) -> wp.quat:
    return wp.quat(goals[env, 3], goals[env, 4], goals[env, 5], goals[env, 6])


@wp.func
def distance_to_goal(
    poses: wp.array[wp.transform], goals: wp.array2d[wp.float32], origins: wp.array[wp.vec3], env: wp.int32
) -> wp.float32:
    goal = wp.vec3(goals[env, 0], goals[env, 1], goals[env, 2])
    return wp.length(wp.transform_get_translation(poses[env]) - origins[env] - goal)
