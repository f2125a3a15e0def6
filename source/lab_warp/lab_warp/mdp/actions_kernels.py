"""Kernels of the joint actions."""

from __future__ import annotations

import warp as wp

from lab_warp.math_kernels import clamp, multiply_add

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def process(
    actions: wp.array2d[wp.float32],
    scale: wp.array[wp.float32],
    offset: wp.array[wp.float32],
    low: wp.array[wp.float32],
    high: wp.array[wp.float32],
    adds_default: wp.array[wp.bool],
    default_values: wp.array2d[wp.float32],
    joints: wp.array[wp.int32],
    processed: wp.array2d[wp.float32],
):
    """Launch over (N, action_dim)."""
    env, column = wp.tid()
    value = multiply_add(actions[env, column], scale[column], offset[column])
    if adds_default[0]:
        value = value + default_values[env, joints[column]]
    processed[env, column] = clamp(value, low[column], high[column])


@wp.kernel
def write_target(processed: wp.array2d[wp.float32], joints: wp.array[wp.int32], target: wp.array2d[wp.float32]):
    """Launch over (N, action_dim)."""
    env, column = wp.tid()
    target[env, joints[column]] = processed[env, column]


@wp.kernel
def write_relative_target(
    processed: wp.array2d[wp.float32],
    joints: wp.array[wp.int32],
    joint_pos: wp.array2d[wp.float32],
    target: wp.array2d[wp.float32],
):
    """Launch over (N, action_dim)."""
    env, column = wp.tid()
    joint = joints[column]
    target[env, joint] = joint_pos[env, joint] + processed[env, column]


@wp.kernel
def clear(mask: wp.array[wp.bool], processed: wp.array2d[wp.float32]):
    """Launch over (N, action_dim)."""
    env, column = wp.tid()
    if mask[env]:
        processed[env, column] = 0.0


@wp.kernel
def smooth_between_limits(
    actions: wp.array2d[wp.float32],
    scale: wp.array[wp.float32],
    offset: wp.array[wp.float32],
    low: wp.array[wp.float32],
    high: wp.array[wp.float32],
    alpha: wp.array[wp.float32],
    limits: wp.array2d[wp.vec2],
    joints: wp.array[wp.int32],
    processed: wp.array2d[wp.float32],
):
    """Launch over (N, action_dim)."""
    env, column = wp.tid()
    lower = limits[env, joints[column]][0]
    upper = limits[env, joints[column]][1]
    share = clamp(multiply_add(actions[env, column], scale[column], offset[column]), low[column], high[column])
    target = lower + 0.5 * (share + 1.0) * (upper - lower)
    smoothed = alpha[column] * target + (1.0 - alpha[column]) * processed[env, column]
    processed[env, column] = clamp(smoothed, lower, upper)


@wp.kernel
def take_positions(
    mask: wp.array[wp.bool],
    joints: wp.array[wp.int32],
    joint_pos: wp.array2d[wp.float32],
    processed: wp.array2d[wp.float32],
):
    """Launch over (N, action_dim)."""
    env, column = wp.tid()
    if mask[env]:
        processed[env, column] = joint_pos[env, joints[column]]
