"""Kernels that sum over environments in a fixed order."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def masked_means(
    values: wp.array2d[wp.float32],
    mask: wp.array[wp.bool],
    count: wp.array[wp.int32],
    scale: wp.float32,
    out: wp.array[wp.float32],
):
    column, lane = wp.tid()
    if count[0] == 0:
        return
    part = wp.float32(0.0)
    for env in range(lane, values.shape[0], wp.block_dim()):
        if mask[env]:
            part += values[env, column]
    total = wp.tile_sum(wp.tile(part))
    value = total[0]  # read by all lanes, which wait for each other there
    if lane == 0:
        out[column] = scale * (value / float(count[0]))


@wp.kernel
def mean_of_integers(values: wp.array[wp.int64], out: wp.array[wp.float32]):
    _, lane = wp.tid()
    part = wp.float32(0.0)
    for env in range(lane, values.shape[0], wp.block_dim()):
        part += float(values[env])
    total = wp.tile_sum(wp.tile(part))
    value = total[0]  # read by all lanes, which wait for each other there
    if lane == 0:
        out[0] = value / float(values.shape[0])
