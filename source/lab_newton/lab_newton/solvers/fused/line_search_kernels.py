"""The exact minimum along the direction of search."""

from __future__ import annotations

import warp as wp

from lab_newton.solvers.fused import block_kernels as block
from lab_newton.solvers.fused.problem_kernels import CONE, Problem, Solution, Work
from lab_newton.solvers.fused.row_kernels import prepare_cone, row_slope

wp.set_module_options({"enable_backward": False})

_ROUNDING = wp.constant(1e-6)
"""Relative error of a sum of slopes in single precision."""


@wp.func
def slope_at(p: Problem, w: Work, world: int, rows: int, lane: int, smooth: wp.vec2, step: float) -> wp.vec3:
    """Slope and curvature of the cost at ``step``, and the sum of the magnitudes of its terms."""
    own = wp.vec3(0.0)
    for row in range(lane, rows, wp.block_dim()):
        own += row_slope(p, w, world, row, step)
    slope = smooth[0] + step * smooth[1]
    return block.total3(own) + wp.vec3(slope, smooth[1], wp.abs(smooth[0]) + wp.abs(step * smooth[1]))


@wp.func
def search_line(p: Problem, s: Solution, w: Work, world: int, n: int, rows: int, lane: int, scale: float, most: int):
    """Returns how far to go along ``w.search``, and the decrease of the cost that this brings if it is quadratic.

    The slope of the cost grows along the line, and is piecewise linear but for cones; its root is found by Newton's
    method, kept between the largest step of negative slope and the smallest of positive slope that were seen.
    """
    width = wp.block_dim()
    own = wp.vec3(0.0)
    for i in range(lane, n, width):
        along = w.search[world, i]
        own += wp.vec3(
            along * (s.inertial_force[world, i] - p.smooth_force[world, i]),
            along * w.search_force[world, i],
            along * along,
        )
    for row in range(lane, rows, width):
        if w.kind[world, row] == CONE:
            prepare_cone(p, w, world, row)
    sums = block.total3(own)
    smooth = wp.vec2(sums[0], sums[1])
    tolerance = p.tolerance[world % p.tolerance.shape[0]] * p.line_tolerance[world % p.line_tolerance.shape[0]]
    allowed = tolerance * wp.sqrt(sums[2]) / scale

    start = slope_at(p, w, world, rows, lane, smooth, 0.0)
    step, below, above = wp.float32(0.0), wp.float32(0.0), wp.float32(-1.0)
    if -start[0] > _ROUNDING * start[2]:
        step = -start[0] / start[1]
        for _ in range(most):
            now = slope_at(p, w, world, rows, lane, smooth, step)
            if wp.abs(now[0]) <= wp.max(allowed, _ROUNDING * now[2]):
                break
            if now[0] < 0.0:
                below = step
            else:
                above = step
            ahead = step - now[0] / now[1]
            if above > 0.0 and (ahead <= below or ahead >= above):
                ahead = 0.5 * (below + above)
            if ahead == step:
                break
            step = ahead
    return step, -0.5 * step * start[0]
