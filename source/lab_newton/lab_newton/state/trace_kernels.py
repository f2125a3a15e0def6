"""Kernels that copy what happens in the substeps of a step."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def copy_row(
    source: wp.array2d[wp.float32],
    columns: wp.array[wp.int32],
    first_row: wp.array[wp.int32],
    substep: wp.int32,
    rows: wp.array3d[wp.float32],
):
    """Chosen numbers (N, S) of a substep -> its row (N, K, C). Launch over (N, C)."""
    world, column = wp.tid()
    rows[world, (first_row[0] + substep) % rows.shape[1], column] = source[world, columns[column]]


@wp.kernel
def advance_row(substeps: wp.int32, rows: wp.int32, first_row: wp.array[wp.int32]):
    """Launch over 1."""
    first_row[0] = (first_row[0] + substeps) % rows
