"""Cholesky factorisation by the threads of a block."""

from __future__ import annotations

import warp as wp

from lab_newton.solvers.fused import block_kernels as block
from lab_newton.solvers.fused.problem_kernels import Work

wp.set_module_options({"enable_backward": False})

_SMALLEST_PIVOT = wp.constant(1e-15)


@wp.func
def factorize(w: Work, world: int, n: int, lane: int):
    """Turns the lower triangle of ``w.factor`` (n + 1, n) into L, but for its diagonal, which becomes its square,
    and the last row g into the solution y of L y = g, column by column."""
    width = wp.block_dim()
    factor = w.factor[world]
    for k in range(n):
        first = k + (lane - k % width + width) % width  # threads keep their rows
        for i in range(first, n + 1, width):
            value = factor[i, k]
            for j in range(k):
                value -= factor[i, j] * factor[k, j]
            factor[i, k] = value
        block.sync()
        scale = 1.0 / wp.sqrt(wp.max(factor[k, k], _SMALLEST_PIVOT))
        for i in range(first, n + 1, width):
            if i > k:
                factor[i, k] = factor[i, k] * scale
        block.sync()


@wp.func
def solve_transposed(w: Work, world: int, n: int, lane: int):
    """Writes the negative solution x of L^T x = y to ``w.search``; y is the last row of ``w.factor``."""
    width = wp.block_dim()
    factor, search = w.factor[world], w.search[world]
    for i in range(lane, n, width):
        search[i] = -factor[n, i]
    block.sync()
    for back in range(n):
        k = n - 1 - back
        scale = 1.0 / wp.sqrt(wp.max(factor[k, k], _SMALLEST_PIVOT))
        x = search[k] * scale
        for i in range(lane, k, width):
            search[i] = search[i] - factor[k, i] * x
        block.sync()
        if lane == k % width:
            search[k] = x
    block.sync()
