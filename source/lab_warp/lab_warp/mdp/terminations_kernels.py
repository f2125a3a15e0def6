"""Kernels of terminations without contacts, one thread per environment."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def time_out(steps: wp.array[wp.int64], longest: wp.int64, out: wp.array[wp.bool]):
    env = wp.tid()
    out[env] = steps[env] >= longest


@wp.kernel
def clip_ended(
    clips: wp.array[wp.int64], frames: wp.array[wp.int64], lengths: wp.array[wp.int64], out: wp.array[wp.bool]
):
    env = wp.tid()
    out[env] = frames[env] >= lengths[clips[env]] - wp.int64(1)


@wp.kernel
def out_of_bounds(
    positions: wp.array2d[wp.float32],
    low: wp.float32,
    high: wp.float32,
    ids: wp.array[wp.int32],
    out: wp.array[wp.bool],
):
    env = wp.tid()
    outside = wp.bool(False)
    for i in range(ids.shape[0]):
        position = positions[env, ids[i]]
        if position < low or position > high:
            outside = wp.bool(True)
    out[env] = outside


@wp.kernel
def out_of_limits(
    positions: wp.array2d[wp.float32], limits: wp.array2d[wp.vec2], ids: wp.array[wp.int32], out: wp.array[wp.bool]
):
    env = wp.tid()
    outside = wp.bool(False)
    for i in range(ids.shape[0]):
        position = positions[env, ids[i]]
        low_high = limits[env, ids[i]]
        if position < low_high[0] or position > low_high[1]:
            outside = wp.bool(True)
    out[env] = outside


@wp.kernel
def below(poses: wp.array[wp.transform], minimum: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    out[env] = poses[env][2] < minimum


@wp.kernel
def tilted(gravity: wp.array[wp.vec3], limit: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    cosine = -gravity[env][2]
    # Of NaN nothing is known; wp.clamp would make a number of it.
    out[env] = not wp.isnan(cosine) and wp.acos(wp.clamp(cosine, -1.0, 1.0)) > limit


@wp.kernel
def outside_terrain(
    poses: wp.array[wp.transform], half_length: wp.float32, half_width: wp.float32, out: wp.array[wp.bool]
):
    env = wp.tid()
    out[env] = wp.abs(poses[env][0]) > half_length or wp.abs(poses[env][1]) > half_width
