"""Inverses of positive definite matrices, each by the threads of a block together."""

from __future__ import annotations

from functools import cache

import warp as wp


@cache
def make_inverse(size: int) -> wp.Kernel:
    """Returns a kernel from matrices (V, V, N) of ``size`` V to their inverses, by Cholesky. Launch tiled over N.

    Its second argument is the unit matrix (V, V). One thread alone would wait for memory all the time.
    """

    @wp.kernel(module="unique", enable_backward=False)
    def invert(matrix: wp.array3d[wp.float32], unit: wp.array2d[wp.float32], inverse: wp.array3d[wp.float32]):
        world = wp.tid()
        values = wp.tile_load(matrix, shape=(size, size, 1), offset=(0, 0, world), storage="shared")
        factor = wp.tile_cholesky(wp.tile_reshape(values, (size, size)))
        columns = wp.tile_cholesky_solve(factor, wp.tile_load(unit, shape=(size, size), storage="shared"))
        wp.tile_store(inverse, wp.tile_reshape(columns, (size, size, 1)), offset=(0, 0, world))

    return invert
