"""Kernel of the command that asks nothing."""

from __future__ import annotations

import warp as wp

from lab_warp.timers_kernels import ran_out

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def draw_times(
    reset_mask: wp.array[wp.bool],
    dt: wp.float32,
    time_range: wp.array[wp.float32],
    rng_state: wp.array[wp.uint32],
    time_left: wp.array[wp.float32],
    counter: wp.array[wp.int64],
):
    """With a mask, starts episodes; without, moves on by ``dt``. Launch over N."""
    env = wp.tid()
    remaining = time_left[env] - dt
    if reset_mask:
        if not reset_mask[env]:
            return
        counter[env] = wp.int64(0)
        remaining = 0.0
    if ran_out(remaining, dt):
        rng = rng_state[env]
        remaining = wp.randf(rng, time_range[0], time_range[1])
        rng_state[env] = rng
        counter[env] = counter[env] + wp.int64(1)
    time_left[env] = remaining
