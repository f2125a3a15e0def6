"""Constraint rows: what force they have, and how they change along a line.

A row has a residual x = J qacc - aref and a stiffness D. Its cost is D x^2 / 2 where it pushes (equality: everywhere;
one-sided: where x < 0; dry friction f: where |x| < f / D, and linear beyond), its force is the negative derivative.
The zones of an elliptic cone are those of MuJoCo's documentation (Computation, "Friction cones", primal): with
N = mu x_0 and T_j = f_j x_j the cost is zero where N >= mu |T|, the sum of its rows' quadratics where mu N + |T| <= 0,
and Dm (N - mu |T|)^2 / 2 with Dm = D_0 / (mu^2 (1 + mu^2)) between.
"""

from __future__ import annotations

import warp as wp

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
    """What a row is."""
    if row < p.num_equalities[world]:
        return EQUALITY
    if row < p.num_equalities[world] + p.num_dry_frictions[world]:
        return DRY_FRICTION
    if p.type[world, row] != CONTACT_ELLIPTIC:
        return ONE_SIDED
    contact = p.object[world, row]
    if contact >= p.num_contacts[0] or p.contact_row[contact, 0] != row:
        return NOTHING
    for j in range(p.contact_dim[contact]):
        other = p.contact_row[contact, j]
        if other < 0 or other >= p.max_rows:
            return NOTHING
    return CONE


@wp.func
def cone_scale(p: Problem, world: int, contact: int, j: int) -> float:
    """Factor of the ``j``-th row of a contact that makes its cone circular."""
    friction = p.contact_friction[contact]
    if j == 0:
        return friction[0] * p.impratio_invsqrt[world % p.impratio_invsqrt.shape[0]]
    return friction[j - 1]


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
    contact = p.object[world, row]
    dim = p.contact_dim[contact]
    mu = cone_scale(p, world, contact, 0)
    normal = mu * w.residual[world, row]
    square = wp.float32(0.0)
    for j in range(1, dim):
        tangent = cone_scale(p, world, contact, j) * w.residual[world, p.contact_row[contact, j]]
        square += tangent * tangent
    length = wp.sqrt(square)
    changed = wp.int32(0)
    if normal >= mu * length:
        for j in range(dim):
            changed += set_force(s, w, world, p.contact_row[contact, j], 0.0, SATISFIED, 0.0)
        return changed
    if mu * normal + length <= 0.0:
        for j in range(dim):
            other = p.contact_row[contact, j]
            stiffness = p.stiffness[world, other]
            force = -stiffness * w.residual[world, other]
            changed += set_force(s, w, world, other, force, QUADRATIC, stiffness)
        return changed
    stiffness = p.stiffness[world, row] / (mu * mu * (1.0 + mu * mu))
    depth = normal - mu * length
    w.cone[world, row] = wp.vec4(mu, 0.0, stiffness, stiffness * depth * mu / length)
    changed += set_force(s, w, world, row, -mu * stiffness * depth, IN_CONE, 1.0)
    for j in range(1, dim):
        other = p.contact_row[contact, j]
        scale = cone_scale(p, world, contact, j)
        unit = scale * w.residual[world, other] / length
        w.cone[world, other] = wp.vec4(scale, unit, 0.0, 0.0)
        changed += set_force(s, w, world, other, scale * stiffness * depth * mu * unit, IN_CONE, 1.0)
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
def weigh_cone(p: Problem, w: Work, world: int, row: int, dof: int):
    """One column of the Hessian of a contact within its cone times the Jacobian, for all its rows.

    With e the normal, t the unit tangent and S the scales the Hessian is
    S (Dm (e - mu t)(e - mu t)^T - k (I - e e^T - t t^T)) S, where k = Dm (N - mu |T|) mu / |T|.
    """
    contact = p.object[world, row]
    dim = p.contact_dim[contact]
    own = w.cone[world, row]
    mu, stiffness, across = own[0], own[2], own[3]
    along = wp.float32(0.0)  # t^T S J
    for j in range(1, dim):
        other = p.contact_row[contact, j]
        tangent = w.cone[world, other]
        along += tangent[0] * tangent[1] * p.jacobian[world, other, dof]
    depth = stiffness * (mu * p.jacobian[world, row, dof] - mu * along)  # Dm (e - mu t)^T S J
    w.weighted[world, row, dof] = mu * depth
    for j in range(1, dim):
        other = p.contact_row[contact, j]
        tangent = w.cone[world, other]
        rest = tangent[0] * p.jacobian[world, other, dof] - tangent[1] * along
        w.weighted[world, other, dof] = tangent[0] * (-mu * tangent[1] * depth - across * rest)


@wp.func
def prepare_cone(p: Problem, w: Work, world: int, row: int):
    """Coefficients of a contact along the direction of search."""
    contact = p.object[world, row]
    scale = cone_scale(p, world, contact, 0)
    x, dx, stiffness = w.residual[world, row], w.search_residual[world, row], p.stiffness[world, row]
    slope, curvature = stiffness * dx * x, stiffness * dx * dx
    uu, uv, vv = wp.float32(0.0), wp.float32(0.0), wp.float32(0.0)
    for j in range(1, p.contact_dim[contact]):
        other = p.contact_row[contact, j]
        xj, dxj, stiffness_j = w.residual[world, other], w.search_residual[world, other], p.stiffness[world, other]
        slope += stiffness_j * dxj * xj
        curvature += stiffness_j * dxj * dxj
        factor = cone_scale(p, world, contact, j)
        u, v = factor * xj, factor * dxj
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
