"""Kernel of effort limits that depend on the position."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def clip_by_position(
    positions: wp.array[wp.float32],
    pos_indices: wp.array[wp.uint32],
    points: wp.array[wp.vec2],
    first: wp.array[wp.int32],
    count: wp.array[wp.int32],
    src: wp.array[wp.float32],
    dst: wp.array[wp.float32],
):
    """Launch over N * J, world by world."""
    slot = wp.tid()
    joint = slot % first.shape[0]
    effort = src[slot]
    if count[joint] > 0:
        position = positions[pos_indices[slot]]
        begin = first[joint]
        limit = points[begin][1]
        for i in range(begin + 1, begin + count[joint]):
            a = points[i - 1]
            b = points[i]
            if position > a[0]:
                share = wp.min((position - a[0]) / (b[0] - a[0]), 1.0)
                limit = a[1] + share * (b[1] - a[1])
        effort = wp.clamp(effort, -limit, limit)
    dst[slot] = effort
