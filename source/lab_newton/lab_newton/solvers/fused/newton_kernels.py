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
from lab_newton.solvers.fused.row_kernels import add_cone, add_row, begin_cone, kind_of, update_row

wp.set_module_options({"enable_backward": False})

_TOO_FEW_ITERATIONS = wp.constant(int(OverflowType.ITERATIONS))


@wp.func
def begin(p: Problem, s: Solution, w: Work, world: int, n: int, rows: int, lane: int) -> float:
    """Lays out inertia and kinds of rows; returns the trace of the inertia."""
    width, padded = wp.block_dim(), w.inertia.shape[1]
    for index in range(lane, padded * padded, width):
        row, column = index // padded, index % padded
        w.inertia[world, row, column] = wp.where(row == column and row >= n, 1.0, 0.0)
    for row in range(lane, rows, width):
        kind = kind_of(p, world, row)
        w.kind[world, row] = kind
        s.row_force[world, row] = 0.0
        w.curvature[world, row] = 0.0
        if kind == CONE:
            begin_cone(p, w, world, row)
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
def accelerate(p: Problem, s: Solution, w: Work, world: int, n: int, lane: int):
    """Acceleration without constraints, also in ``w.search``."""
    width, blocks = wp.block_dim(), w.search_blocks.shape[1]
    for row in range(lane, 4 * blocks, width):
        for b in range(row // 4 + 1):
            block.store(w.factor[world, row], b, block.load(w.inertia_blocks[world, row], b))
    for b in range(lane, blocks, width):
        block.store(w.factor[world, 4 * blocks], b, -block_of(p.smooth_force[world], b))
    block.sync()
    factorize(w, world, blocks, lane)
    solve_transposed(w, world, blocks, lane)
    for i in range(lane, n, width):
        s.smooth_acceleration[world, i] = w.search[world, i]


@wp.func
def begin_at(p: Problem, s: Solution, w: Work, world: int, n: int, lane: int, warm: bool):
    """Sets the first acceleration, also in ``w.search``: that of the last step, or the one without constraints."""
    for i in range(lane, n, wp.block_dim()):
        if warm:
            w.search[world, i] = p.last_acceleration[world, i]
        s.acceleration[world, i] = w.search[world, i]
    block.sync()


@wp.func
def block_of(vector: wp.array[wp.float32], b: int) -> wp.vec4:
    """Four numbers of a vector; behind its end, zeros."""
    value, n = wp.vec4(0.0), vector.shape[0]
    for c in range(4):
        if 4 * b + c < n:
            value[c] = vector[4 * b + c]
    return value


@wp.func
def product(a: wp.array[wp.vec4], b: wp.array[wp.vec4]) -> float:
    """Dot product of two vectors."""
    value = wp.float32(0.0)
    for i in range(b.shape[0]):
        value += wp.dot(block.load(a, i), block.load(b, i))
    return value


@wp.func
def apply_inertia(w: Work, world: int, i: int) -> float:
    """One element of the inertia times ``w.search``."""
    return product(w.inertia_blocks[world, i], w.search_blocks[world])


@wp.func
def apply_jacobian(p: Problem, w: Work, world: int, row: int) -> float:
    """One element of the Jacobian times ``w.search``."""
    return product(p.jacobian[world, row], w.search_blocks[world])


@wp.func
def update(p: Problem, s: Solution, w: Work, world: int, n: int, rows: int, lane: int) -> wp.vec2:
    """Forces at the present acceleration, and the gradient (last row of ``w.factor``); returns its square and how many
    rows changed."""
    width, blocks = wp.block_dim(), w.search_blocks.shape[1]
    changed, square = wp.int32(0), wp.float32(0.0)
    for row in range(lane, rows, width):
        changed += update_row(p, s, w, world, row)
    block.sync()
    jacobian, row_force = p.jacobian[world], s.row_force[world]
    for b in range(lane, blocks, width):
        force = wp.vec4(0.0)
        for row in range(rows):
            force += row_force[row] * block.load(jacobian[row], b)
        gradient = block_of(s.inertial_force[world], b) - block_of(p.smooth_force[world], b) - force
        for c in range(4):
            if 4 * b + c < n:
                s.joint_force[world, 4 * b + c] = force[c]
        block.store(w.factor[world, 4 * blocks], b, gradient)
        square += wp.dot(gradient, gradient)
    sums = block.total3(wp.vec3(square, float(changed), 0.0))
    return wp.vec2(sums[0], sums[1])


@wp.func
def triangle_row(index: int) -> int:
    """Row of the ``index``-th element of a lower triangle that is laid out row by row."""
    i = int((wp.sqrt(8.0 * float(index) + 1.0) - 1.0) * 0.5)
    if i * (i + 1) // 2 > index:
        i -= 1
    return i


@cache
def build_hessian(cones: bool) -> wp.Function:
    """Returns the function that builds the Hessian, with elliptic cones or without."""

    @wp.func
    def build(p: Problem, w: Work, world: int, rows: int, lane: int):
        """Lower triangle of M + J^T D J over the rows that push, in ``w.factor``."""
        blocks, curvatures, inertia = w.search_blocks.shape[1], w.curvature[world], w.inertia_blocks[world]
        for index in range(lane, blocks * (blocks + 1) // 2, wp.block_dim()):
            i = triangle_row(index)
            j = index - i * (i + 1) // 2
            h = wp.matrix_from_rows(
                block.load(inertia[4 * i], j),
                block.load(inertia[4 * i + 1], j),
                block.load(inertia[4 * i + 2], j),
                block.load(inertia[4 * i + 3], j),
            )
            for row in range(rows):  # without a branch, so that loads of several rows are on their way at once
                h = add_row(h, p, world, row, i, j, wp.max(curvatures[row], 0.0))
            if wp.static(cones):
                for row in range(rows):
                    if curvatures[row] < 0.0:
                        h = add_cone(h, p, w, world, row, i, j)
            for c in range(4):
                block.store(w.factor[world, 4 * i + c], j, h[c])

    return build


@cache
def solve_kernel(cones: bool) -> wp.Kernel:
    """Returns the kernel, with elliptic cones or without. Launch over N blocks."""
    build = build_hessian(cones)

    @wp.kernel(module="unique", enable_backward=False)
    def solve(p: Problem, s: Solution, w: Work, n: int, warm: int, iterations: int, line_iterations: int):
        world, lane = wp.tid()
        width, blocks = wp.block_dim(), w.search_blocks.shape[1]
        rows = wp.min(p.num_rows[world], p.max_rows)
        scale = 1.0 / wp.max(begin(p, s, w, world, n, rows, lane), 1e-15)
        block.sync()
        accelerate(p, s, w, world, n, lane)
        begin_at(p, s, w, world, n, lane, warm != 0 and rows > 0)
        tolerance = p.tolerance[world % p.tolerance.shape[0]] / scale
        for i in range(lane, n, width):
            s.inertial_force[world, i] = apply_inertia(w, world, i)
        for row in range(lane, rows, width):
            w.residual[world, row] = apply_jacobian(p, w, world, row) - p.reference[world, row]
        block.sync()
        gradient = update(p, s, w, world, n, rows, lane)
        done, count = wp.bool(rows == 0), wp.int32(0)
        while not done and count < iterations:
            build(p, w, world, rows, lane)
            block.sync()
            factorize(w, world, blocks, lane)
            own = wp.float32(0.0)
            for b in range(lane, blocks, width):
                own += wp.length_sq(block.load(w.factor[world, 4 * blocks], b))
            decrement = 0.5 * block.total(own)
            if decrement < tolerance and count > 0:  # as in MuJoCo, a first iteration is always made
                done = True
            else:
                solve_transposed(w, world, blocks, lane)
                for i in range(lane, n, width):
                    w.search_force[world, i] = apply_inertia(w, world, i)
                for row in range(lane, rows, width):
                    w.search_residual[world, row] = apply_jacobian(p, w, world, row)
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
