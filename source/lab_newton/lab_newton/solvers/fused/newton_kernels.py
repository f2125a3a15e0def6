"""Newton's method for one environment per block of threads.

Minimises (a - a_smooth)^T M (a - a_smooth) / 2 + the cost of the constraint rows over the acceleration a: MuJoCo's
documentation, Computation, "Numerical optimization" of the primal problem.
"""

from __future__ import annotations

from functools import cache

import warp as wp
from mujoco_warp import OverflowType

from lab_newton.solvers.fused import block_kernels as block
from lab_newton.solvers.fused.cholesky_kernels import factorize, solve_transposed
from lab_newton.solvers.fused.line_search_kernels import search_line
from lab_newton.solvers.fused.problem_kernels import CONE, Problem, Solution, Work
from lab_newton.solvers.fused.row_kernels import IN_CONE, kind_of, update_row, weigh_cone

wp.set_module_options({"enable_backward": False})

_TOO_FEW_ITERATIONS = wp.constant(int(OverflowType.ITERATIONS))


@wp.func
def begin(p: Problem, s: Solution, w: Work, world: int, n: int, rows: int, lane: int, warm: int) -> float:
    """Lays out inertia, Jacobian and kinds of rows, sets the first acceleration; returns the trace of the inertia."""
    width = wp.block_dim()
    for index in range(lane, n * n, width):
        w.inertia[world, index // n, index % n] = 0.0
    for i in range(lane, n, width):
        if warm != 0 and rows > 0:
            s.acceleration[world, i] = p.last_acceleration[world, i]
        else:
            s.acceleration[world, i] = p.smooth_acceleration[world, i]
    for index in range(lane, rows * n, width):
        w.jacobian[world, index % n, index // n] = p.jacobian[world, index // n, index % n]
    for row in range(lane, rows, width):
        w.kind[world, row] = kind_of(p, world, row)
        s.row_force[world, row] = 0.0
        w.curvature[world, row] = 0.0
    block.sync()
    trace = wp.float32(0.0)
    for i in range(lane, n, width):
        address, number = p.inertia_address[i], p.inertia_number[i]
        for k in range(address, address + number):
            j, value = p.inertia_column[k], p.inertia[world, k]
            w.inertia[world, i, j] = value
            w.inertia[world, j, i] = value
        trace += p.inertia[world, address + number - 1]
    return block.total(trace)


@wp.func
def apply_inertia(w: Work, world: int, n: int, dof: int, vector: wp.array2d[wp.float32]) -> float:
    """One element of the inertia times ``vector`` (N, V)."""
    value = wp.float32(0.0)
    inertia, own = w.inertia[world], vector[world]
    for j in range(n):
        value += inertia[j, dof] * own[j]
    return value


@wp.func
def apply_jacobian(w: Work, world: int, n: int, row: int, vector: wp.array2d[wp.float32]) -> float:
    """One element of the Jacobian times ``vector`` (N, V)."""
    value = wp.float32(0.0)
    jacobian, own = w.jacobian[world], vector[world]
    for j in range(n):
        value += jacobian[j, row] * own[j]
    return value


@wp.func
def update(p: Problem, s: Solution, w: Work, world: int, n: int, rows: int, lane: int) -> wp.vec2:
    """Forces at the present acceleration, and the gradient (last row of ``w.factor``); returns its square and how many
    rows changed."""
    width = wp.block_dim()
    changed, square = wp.int32(0), wp.float32(0.0)
    for row in range(lane, rows, width):
        changed += update_row(p, s, w, world, row)
    block.sync()
    jacobian, row_force = p.jacobian[world], s.row_force[world]
    for i in range(lane, n, width):
        force = wp.float32(0.0)
        for row in range(rows):
            force += jacobian[row, i] * row_force[row]
        s.joint_force[world, i] = force
        gradient = s.inertial_force[world, i] - p.smooth_force[world, i] - force
        w.factor[world, n, i] = gradient
        square += gradient * gradient
    sums = block.total3(wp.vec3(square, float(changed), 0.0))
    return wp.vec2(sums[0], sums[1])


@wp.func
def triangle_row(index: int) -> int:
    """Row of the ``index``-th element of a lower triangle that is laid out row by row."""
    i = int((wp.sqrt(8.0 * float(index) + 1.0) - 1.0) * 0.5)
    if i * (i + 1) // 2 > index:
        i -= 1
    return i


@wp.func
def build_hessian(p: Problem, w: Work, world: int, n: int, rows: int, lane: int):
    """Lower triangle of M + J^T D J over the rows that push, in ``w.factor``."""
    width = wp.block_dim()
    jacobian, curvatures = p.jacobian[world], w.curvature[world]
    for index in range(lane, n * (n + 1) // 2, width):
        i = triangle_row(index)
        j = index - i * (i + 1) // 2
        value = w.inertia[world, i, j]
        for row in range(rows):
            curvature = curvatures[row]
            if curvature != 0.0:
                value += curvature * jacobian[row, i] * jacobian[row, j]
        w.factor[world, i, j] = value


@wp.func
def build_hessian_of_cones(p: Problem, s: Solution, w: Work, world: int, n: int, rows: int, lane: int):
    """As :func:`build_hessian`, of rows of which some lie within a cone."""
    width = wp.block_dim()
    for index in range(lane, rows * n, width):
        row, dof = index // n, index % n
        if s.row_state[world, row] != IN_CONE or w.curvature[world, row] == 0.0:
            w.weighted[world, row, dof] = w.curvature[world, row] * p.jacobian[world, row, dof]
        elif w.kind[world, row] == CONE:
            weigh_cone(p, w, world, row, dof)
    block.sync()
    jacobian, weighted, curvatures = p.jacobian[world], w.weighted[world], w.curvature[world]
    for index in range(lane, n * (n + 1) // 2, width):
        i = triangle_row(index)
        j = index - i * (i + 1) // 2
        value = w.inertia[world, i, j]
        for row in range(rows):
            if curvatures[row] != 0.0:
                value += jacobian[row, i] * weighted[row, j]
        w.factor[world, i, j] = value


@cache
def solve_kernel(cones: bool) -> wp.Kernel:
    """Returns the kernel, with elliptic cones or without. Launch over N blocks."""

    @wp.kernel(module="unique", enable_backward=False)
    def solve(p: Problem, s: Solution, w: Work, n: int, warm: int, iterations: int, line_iterations: int):
        world, lane = wp.tid()
        width = wp.block_dim()
        rows = wp.min(p.num_rows[world], p.max_rows)
        scale = 1.0 / wp.max(begin(p, s, w, world, n, rows, lane, warm), 1e-15)
        tolerance = p.tolerance[world % p.tolerance.shape[0]] / scale
        for i in range(lane, n, width):
            s.inertial_force[world, i] = apply_inertia(w, world, n, i, s.acceleration)
        for row in range(lane, rows, width):
            x = apply_jacobian(w, world, n, row, s.acceleration)
            w.residual[world, row] = x - p.reference[world, row]
        block.sync()
        gradient = update(p, s, w, world, n, rows, lane)
        done, count = wp.bool(False), wp.int32(0)
        while not done and count < iterations:
            if wp.static(cones):
                build_hessian_of_cones(p, s, w, world, n, rows, lane)
            else:
                build_hessian(p, w, world, n, rows, lane)
            block.sync()
            factorize(w, world, n, lane)
            own = wp.float32(0.0)
            for i in range(lane, n, width):
                own += w.factor[world, n, i] * w.factor[world, n, i]
            decrement = 0.5 * block.total(own)
            if decrement < tolerance and count > 0:  # as in MuJoCo, a first iteration is always made
                done = True
            else:
                solve_transposed(w, world, n, lane)
                for i in range(lane, n, width):
                    w.search_force[world, i] = apply_inertia(w, world, n, i, w.search)
                for row in range(lane, rows, width):
                    w.search_residual[world, row] = apply_jacobian(w, world, n, row, w.search)
                block.sync()
                step, improvement = search_line(p, s, w, world, n, rows, lane, scale, line_iterations)
                for i in range(lane, n, width):
                    s.acceleration[world, i] = s.acceleration[world, i] + step * w.search[world, i]
                    s.inertial_force[world, i] = s.inertial_force[world, i] + step * w.search_force[world, i]
                for row in range(lane, rows, width):
                    w.residual[world, row] = w.residual[world, row] + step * w.search_residual[world, row]
                block.sync()
                gradient = update(p, s, w, world, n, rows, lane)
                count += 1
                # Where no row changed, the cost was quadratic, and what is left of it shrank by (1 - step)^2.
                rest = (1.0 - step) * (1.0 - step) * decrement
                done = step == 0.0 or improvement < tolerance or wp.sqrt(gradient[0]) < tolerance
                done = done or (gradient[1] == 0.0 and rest < tolerance)
        if lane == 0:
            s.iterations[world] = count
            if not done:
                s.overflow[world] = s.overflow[world] | _TOO_FEW_ITERATIONS

    return solve
