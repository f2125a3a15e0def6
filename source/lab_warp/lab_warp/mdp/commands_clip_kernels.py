"""Kernels of commands that play clips."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.kernel
def move(
    mask: wp.array[wp.bool],
    to_clip: wp.array[wp.int64],
    to_frame: wp.array[wp.int64],
    lengths: wp.array[wp.int64],
    clip: wp.array[wp.int64],
    frame: wp.array[wp.int64],
    started: wp.array[wp.bool],
):
    """With a mask, starts its environments at a frame of a clip; without, shows all the next frame. Launch over N."""
    env = wp.tid()
    shown = frame[env] + wp.int64(1)
    if mask:
        if not mask[env]:
            return
        clip[env] = to_clip[env]
        shown = to_frame[env]
        started[env] = True
    else:
        started[env] = False
    frame[env] = wp.min(shown, lengths[clip[env]] - wp.int64(1))


@wp.kernel
def begin(
    mask: wp.array[wp.bool],
    frame: wp.array[wp.int64],
    started: wp.array[wp.bool],
    counter: wp.array[wp.int64],
):
    """Begins episodes: where nobody has started a clip, at its first frame. Launch over N."""
    env = wp.tid()
    if mask[env]:
        if not started[env]:
            frame[env] = wp.int64(0)
        started[env] = False
        counter[env] = wp.int64(1)


@wp.kernel
def clear(mask: wp.array[wp.bool], values: wp.array[wp.float32]):
    """Launch over N."""
    env = wp.tid()
    if mask[env]:
        values[env] = 0.0


@wp.kernel
def show_rows(
    mask: wp.array[wp.bool],
    clip: wp.array[wp.int64],
    frame: wp.array[wp.int64],
    starts: wp.array[wp.int64],
    rows: wp.array2d[wp.float32],
    out: wp.array2d[wp.float32],
):
    """Copies the rows of the frames that are shown; without a mask, of all environments. Launch over N, D."""
    env, column = wp.tid()
    if mask:
        if not mask[env]:
            return
    out[env, column] = rows[int(starts[clip[env]] + frame[env]), column]
