"""Constraint rows: what force they have, and how they change along a line.

A row has a residual x = J qacc - aref and a stiffness D. Its cost is D x^2 / 2 where it pushes (equality: everywhere;
one-sided: where x < 0; dry friction f: where |x| < f / D, and linear beyond), its force is the negative derivative.
The zones of an elliptic cone are those of MuJoCo's documentation (Computation, "Friction cones", primal): with
N = mu x_0 and T_j = f_j x_j the cost is zero where N >= mu |T|, the sum of its rows' quadratics where mu N + |T| <= 0,
and Dm (N - mu |T|)^2 / 2 with Dm = D_0 / (mu^2 (1 + mu^2)) between.
"""

from __future__ import annotations

import warp as wp

from lab_newton.solvers.fused import block_kernels as block
from lab_newton.solvers.fused.problem_kernels import (
    CONE,
    DRY_FRICTION,
    EQUALITY,
    NOTHING,
    ONE_SIDED,
    Problem,
    Solution,
    Work,
)

wp.set_module_options({"enable_backward": False})

# MuJoCo's mjtConstraintState
SATISFIED, QUADRATIC, LINEAR_NEGATIVE, LINEAR_POSITIVE, IN_CONE = (wp.constant(value) for value in range(5))
CONTACT_ELLIPTIC = wp.constant(7)
"""MuJoCo's mjCNSTR_CONTACT_ELLIPTIC."""


@wp.func
def kind_of(p: Problem, world: int, row: int) -> int:
    """What a row is. The rows of a contact follow each other."""
    if row < p.num_equalities[world]:
        return EQUALITY
    if row < p.num_equalities[world] + p.num_dry_frictions[world]:
        return DRY_FRICTION
    if p.type[world, row] != CONTACT_ELLIPTIC:
        return ONE_SIDED
    contact = p.object[world, row]
    if contact >= p.num_contacts[0] or p.contact_row[contact, 0] != row:
        return NOTHING
    if row + p.contact_dim[contact] > p.max_rows:
        return NOTHING
    return CONE


@wp.func
def begin_cone(p: Problem, w: Work, world: int, row: int):
    """Lays out what the rows of a contact are multiplied with to make its cone circular."""
    contact = p.object[world, row]
    friction, dim = p.contact_friction[contact], p.contact_dim[contact]
    w.cone_dim[world, row] = dim
    w.cone_scale[world, row] = friction[0] * p.impratio_invsqrt[world % p.impratio_invsqrt.shape[0]]
    for j in range(1, dim):
        w.cone_scale[world, row + j] = friction[j - 1]


@wp.func
def set_force(s: Solution, w: Work, world: int, row: int, force: float, state: int, curvature: float) -> int:
    """Writes a row's force; returns 1 if its cost is no longer, or not, the quadratic that it was."""
    changed = int(s.row_state[world, row] != state or state == IN_CONE)
    s.row_force[world, row] = force
    s.row_state[world, row] = state
    w.curvature[world, row] = curvature
    return changed


@wp.func
def update_cone(p: Problem, s: Solution, w: Work, world: int, row: int) -> int:
    """Forces of all rows of a contact; returns how many changed."""
    dim = w.cone_dim[world, row]
    mu = w.cone_scale[world, row]
    normal = mu * w.residual[world, row]
    square = wp.float32(0.0)
    for other in range(row + 1, row + dim):
        tangent = w.cone_scale[world, other] * w.residual[world, other]
        square += tangent * tangent
    length = wp.sqrt(square)
    changed = wp.int32(0)
    if normal >= mu * length:
        for other in range(row, row + dim):
            changed += set_force(s, w, world, other, 0.0, SATISFIED, 0.0)
        return changed
    if mu * normal + length <= 0.0:
        for other in range(row, row + dim):
            stiffness = p.stiffness[world, other]
            force = -stiffness * w.residual[world, other]
            changed += set_force(s, w, world, other, force, QUADRATIC, stiffness)
        return changed
    stiffness = p.stiffness[world, row] / (mu * mu * (1.0 + mu * mu))
    depth = normal - mu * length
    w.cone[world, row] = wp.vec3(0.0, stiffness, stiffness * depth * mu / length)
    changed += set_force(s, w, world, row, -mu * stiffness * depth, IN_CONE, -1.0)
    for other in range(row + 1, row + dim):
        scale = w.cone_scale[world, other]
        unit = scale * w.residual[world, other] / length
        w.cone[world, other] = wp.vec3(unit, 0.0, 0.0)
        changed += set_force(s, w, world, other, scale * stiffness * depth * mu * unit, IN_CONE, 0.0)
    return changed


@wp.func
def update_row(p: Problem, s: Solution, w: Work, world: int, row: int) -> int:
    """Force and state of a row at its residual; returns how many rows are no longer, or not, the same quadratic."""
    kind = w.kind[world, row]
    if kind == CONE:
        return update_cone(p, s, w, world, row)
    if kind == NOTHING:
        return 0
    x, stiffness = w.residual[world, row], p.stiffness[world, row]
    if kind == DRY_FRICTION:
        limit = p.dry_friction[world, row]
        if stiffness * x <= -limit:
            return set_force(s, w, world, row, limit, LINEAR_NEGATIVE, 0.0)
        if stiffness * x >= limit:
            return set_force(s, w, world, row, -limit, LINEAR_POSITIVE, 0.0)
    elif kind == ONE_SIDED and x >= 0.0:
        return set_force(s, w, world, row, 0.0, SATISFIED, 0.0)
    return set_force(s, w, world, row, -stiffness * x, QUADRATIC, stiffness)


@wp.func
def add_row(h: wp.mat44, p: Problem, world: int, row: int, i: int, j: int, curvature: float) -> wp.mat44:
    """Block (i, j) of the Hessian and what a row adds to it."""
    return h + wp.outer(block.load(p.jacobian[world, row], i), curvature * block.load(p.jacobian[world, row], j))


@wp.func
def add_cone(h: wp.mat44, p: Problem, w: Work, world: int, row: int, i: int, j: int) -> wp.mat44:
    """Block (i, j) of the Hessian and what the rows of a contact within its cone add to it.

    With e the normal, t the unit tangent and S the scales they add J^T H J, where H is
    S (Dm (e - mu t)(e - mu t)^T - k (I - e e^T - t t^T)) S, and k = Dm (N - mu |T|) mu / |T|.
    """
    own, mu, end = w.cone[world, row], w.cone_scale[world, row], row + w.cone_dim[world, row]
    along = wp.vec4(0.0)  # t^T S J
    for other in range(row + 1, end):
        along += (w.cone[world, other][0] * w.cone_scale[world, other]) * block.load(p.jacobian[world, other], j)
    depth = (own[1] * mu) * (block.load(p.jacobian[world, row], j) - along)  # Dm (e - mu t)^T S J
    h += wp.outer(block.load(p.jacobian[world, row], i), mu * depth)
    for other in range(row + 1, end):
        unit, scale = w.cone[world, other][0], w.cone_scale[world, other]
        rest = scale * block.load(p.jacobian[world, other], j) - unit * along
        h -= wp.outer(block.load(p.jacobian[world, other], i), (scale * mu * unit) * depth + (scale * own[2]) * rest)
    return h


@wp.func
def prepare_cone(p: Problem, w: Work, world: int, row: int):
    """Coefficients of a contact along the direction of search."""
    scale = w.cone_scale[world, row]
    x, dx, stiffness = w.residual[world, row], w.search_residual[world, row], p.stiffness[world, row]
    slope, curvature = stiffness * dx * x, stiffness * dx * dx
    uu, uv, vv = wp.float32(0.0), wp.float32(0.0), wp.float32(0.0)
    for other in range(row + 1, row + w.cone_dim[world, row]):
        xj, dxj, stiffness_j = w.residual[world, other], w.search_residual[world, other], p.stiffness[world, other]
        slope += stiffness_j * dxj * xj
        curvature += stiffness_j * dxj * dxj
        u, v = w.cone_scale[world, other] * xj, w.cone_scale[world, other] * dxj
        uu += u * u
        uv += u * v
        vv += v * v
    w.line[world, 3 * row] = wp.vec3(scale, scale * x, scale * dx)
    w.line[world, 3 * row + 1] = wp.vec3(uu, uv, vv)
    w.line[world, 3 * row + 2] = wp.vec3(slope, curvature, stiffness / (scale * scale * (1.0 + scale * scale)))


@wp.func
def cone_slope(w: Work, world: int, row: int, step: float) -> wp.vec3:
    """Slope, curvature and largest term of a contact's cost, ``step`` along the direction of search."""
    first, second, third = w.line[world, 3 * row], w.line[world, 3 * row + 1], w.line[world, 3 * row + 2]
    mu, normal = first[0], first[1] + step * first[2]
    length = wp.sqrt(wp.max(second[0] + step * (2.0 * second[1] + step * second[2]), 0.0))
    if normal >= mu * length:
        return wp.vec3(0.0)
    if mu * normal + length <= 0.0:
        return wp.vec3(third[0] + step * third[1], third[1], wp.abs(third[0]) + wp.abs(step * third[1]))
    d_length = (second[1] + step * second[2]) / length
    dd_length = (second[2] - d_length * d_length) / length
    depth, d_depth = normal - mu * length, first[2] - mu * d_length
    slope = third[2] * depth * d_depth
    return wp.vec3(slope, third[2] * (d_depth * d_depth - depth * mu * dd_length), wp.abs(slope))


@wp.func
def row_slope(p: Problem, w: Work, world: int, row: int, step: float) -> wp.vec3:
    """Slope, curvature and largest term of a row's cost, ``step`` along the direction of search."""
    kind = w.kind[world, row]
    if kind == CONE:
        return cone_slope(w, world, row, step)
    if kind == NOTHING:
        return wp.vec3(0.0)
    start, dx, stiffness = w.residual[world, row], w.search_residual[world, row], p.stiffness[world, row]
    x = start + step * dx
    if kind == DRY_FRICTION:
        limit = p.dry_friction[world, row]
        if stiffness * wp.abs(x) >= limit:
            slope = wp.sign(x) * limit * dx
            return wp.vec3(slope, 0.0, wp.abs(slope))
    elif kind == ONE_SIDED and x >= 0.0:
        return wp.vec3(0.0)
    force = stiffness * dx
    return wp.vec3(force * x, force * dx, wp.abs(force) * (wp.abs(start) + wp.abs(step * dx)))
