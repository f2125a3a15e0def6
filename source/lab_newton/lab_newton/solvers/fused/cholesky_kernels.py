"""Cholesky factorisation by the threads of a block, four columns at a time."""

from __future__ import annotations

import warp as wp

from lab_newton.solvers.fused import block_kernels as block
from lab_newton.solvers.fused.problem_kernels import Work

wp.set_module_options({"enable_backward": False})

_SMALLEST_PIVOT = wp.constant(1e-15)


@wp.func
def root(pivot: float) -> float:
    """One over the square root of a pivot."""
    return 1.0 / wp.sqrt(wp.max(pivot, _SMALLEST_PIVOT))


@wp.func
def factorize_diagonal(a: wp.vec4, b: wp.vec4, c: wp.vec4, d: wp.vec4) -> wp.mat44:
    """Factor of the 4 x 4 matrix with the lower rows a, b, c, d, with one over its diagonal."""
    aa = root(a[0])
    ba, ca, da = b[0] * aa, c[0] * aa, d[0] * aa
    bb = root(b[1] - ba * ba)
    cb, db = (c[1] - ca * ba) * bb, (d[1] - da * ba) * bb
    cc = root(c[2] - ca * ca - cb * cb)
    dc = (d[2] - da * ca - db * cb) * cc
    dd = root(d[3] - da * da - db * db - dc * dc)
    return wp.mat44(aa, 0.0, 0.0, 0.0, ba, bb, 0.0, 0.0, ca, cb, cc, 0.0, da, db, dc, dd)


@wp.func
def solve_diagonal(f: wp.mat44, v: wp.vec4) -> wp.vec4:
    """The solution x of L x = v."""
    x = v[0] * f[0, 0]
    y = (v[1] - f[1, 0] * x) * f[1, 1]
    z = (v[2] - f[2, 0] * x - f[2, 1] * y) * f[2, 2]
    return wp.vec4(x, y, z, (v[3] - f[3, 0] * x - f[3, 1] * y - f[3, 2] * z) * f[3, 3])


@wp.func
def solve_diagonal_transposed(f: wp.mat44, v: wp.vec4) -> wp.vec4:
    """The solution x of L^T x = v."""
    w = v[3] * f[3, 3]
    z = (v[2] - f[3, 2] * w) * f[2, 2]
    y = (v[1] - f[3, 1] * w - f[2, 1] * z) * f[1, 1]
    return wp.vec4((v[0] - f[3, 0] * w - f[2, 0] * z - f[1, 0] * y) * f[0, 0], y, z, w)


@wp.func
def factorize(w: Work, world: int, blocks: int, lane: int):
    """Turns the lower triangle of ``w.factor`` into L but for its diagonal blocks, which go to ``w.diagonal``, and the
    last row g into the solution y of L y = g."""
    width = wp.block_dim()
    factor, diagonal = w.factor[world], w.diagonal[world]
    for k in range(blocks):
        a, b, c, d = factor[4 * k], factor[4 * k + 1], factor[4 * k + 2], factor[4 * k + 3]
        for i in range(4 * k + lane, 4 * blocks + 1, width):
            own = factor[i]
            rest = block.load(own, k)
            for j in range(k):
                v = block.load(own, j)
                rest -= wp.vec4(
                    wp.dot(v, block.load(a, j)),
                    wp.dot(v, block.load(b, j)),
                    wp.dot(v, block.load(c, j)),
                    wp.dot(v, block.load(d, j)),
                )
            block.store(own, k, rest)
        block.sync()
        f = factorize_diagonal(block.load(a, k), block.load(b, k), block.load(c, k), block.load(d, k))
        if lane == 0:
            diagonal[k] = f
        for i in range(4 * k + 4 + lane, 4 * blocks + 1, width):
            row = factor[i]
            block.store(row, k, solve_diagonal(f, block.load(row, k)))
        block.sync()


@wp.func
def solve_transposed(w: Work, world: int, blocks: int, lane: int):
    """Writes the negative solution x of L^T x = y to ``w.search``; y is the last row of ``w.factor``, which is lost."""
    width = wp.block_dim()
    factor, diagonal, search = w.factor[world], w.diagonal[world], w.search_blocks[world]
    last = factor[4 * blocks]
    for back in range(blocks):
        k = blocks - 1 - back
        a, b, c, d = factor[4 * k], factor[4 * k + 1], factor[4 * k + 2], factor[4 * k + 3]
        x = solve_diagonal_transposed(diagonal[k], block.load(last, k))
        for j in range(lane, k, width):
            rest = x[0] * block.load(a, j) + x[1] * block.load(b, j)
            rest += x[2] * block.load(c, j) + x[3] * block.load(d, j)
            block.store(last, j, block.load(last, j) - rest)
        if lane == 0:
            block.store(search, k, -x)
        block.sync()
