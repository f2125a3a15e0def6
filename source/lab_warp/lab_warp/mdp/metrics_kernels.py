"""Kernels of metrics, one thread per environment."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def survived(time_outs: wp.array[wp.bool], out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = wp.float32(time_outs[env])


@wp.kernel
def velocity_tracked(
    error_xy: wp.array[wp.float32],
    error_yaw: wp.array[wp.float32],
    max_error_xy: wp.float32,
    max_error_yaw: wp.float32,
    out: wp.array[wp.float32],
):
    env = wp.tid()
    out[env] = wp.float32(error_xy[env] < max_error_xy and error_yaw[env] < max_error_yaw)
