"""What the solve reads and where it works."""

from __future__ import annotations

import warp as wp
from mujoco_warp import Data, Model

wp.set_module_options({"enable_backward": False})

vec5 = wp.types.vector(length=5, dtype=wp.float32)

EQUALITY = wp.constant(0)
DRY_FRICTION = wp.constant(1)
ONE_SIDED = wp.constant(2)
CONE = wp.constant(3)
"""The normal row of an elliptic contact, which stands for all rows of it."""
NOTHING = wp.constant(4)
"""Another row of an elliptic contact, or one of a contact whose rows did not fit."""


@wp.struct
class Problem:
    """One quadratic with constraint rows per environment: arrays of MuJoCo Warp, N environments, V degrees of freedom,
    R rows of which the first ``num_rows`` count."""

    num_equalities: wp.array[wp.int32]
    num_dry_frictions: wp.array[wp.int32]
    num_rows: wp.array[wp.int32]
    num_contacts: wp.array[wp.int32]
    max_rows: wp.int32
    # inertia, row by row up to the diagonal
    inertia_number: wp.array[wp.int32]
    inertia_address: wp.array[wp.int32]
    inertia_column: wp.array[wp.int32]
    inertia: wp.array2d[wp.float32]
    # of degrees of freedom
    smooth_force: wp.array2d[wp.float32]
    smooth_acceleration: wp.array2d[wp.float32]
    last_acceleration: wp.array2d[wp.float32]
    # of rows
    type: wp.array2d[wp.int32]
    object: wp.array2d[wp.int32]
    jacobian: wp.array3d[wp.float32]
    stiffness: wp.array2d[wp.float32]
    reference: wp.array2d[wp.float32]
    dry_friction: wp.array2d[wp.float32]
    # of contacts
    contact_friction: wp.array[vec5]
    contact_dim: wp.array[wp.int32]
    contact_row: wp.array2d[wp.int32]
    impratio_invsqrt: wp.array[wp.float32]
    tolerance: wp.array[wp.float32]
    line_tolerance: wp.array[wp.float32]


@wp.struct
class Solution:
    """What the solve writes, in arrays of MuJoCo Warp."""

    acceleration: wp.array2d[wp.float32]
    inertial_force: wp.array2d[wp.float32]
    """(N, V) inertia times acceleration."""
    row_force: wp.array2d[wp.float32]
    row_state: wp.array2d[wp.int32]
    joint_force: wp.array2d[wp.float32]
    """(N, V) force of all constraints."""
    iterations: wp.array[wp.int32]
    overflow: wp.array[wp.int32]


@wp.struct
class Work:
    """Scratch of the solve."""

    inertia: wp.array3d[wp.float32]
    """(N, V, V), dense."""
    factor: wp.array3d[wp.float32]
    """(N, V + 1, V): the Hessian's Cholesky factor below its pivots, and in the last row the gradient."""
    jacobian: wp.array3d[wp.float32]
    """(N, V, R), transposed, so that threads next to each other read numbers next to each other."""
    search: wp.array2d[wp.float32]
    """(N, V) direction."""
    search_force: wp.array2d[wp.float32]
    """(N, V) inertia times direction."""
    kind: wp.array2d[wp.int32]
    """(N, R)."""
    residual: wp.array2d[wp.float32]
    """(N, R) Jacobian times acceleration, less the reference."""
    search_residual: wp.array2d[wp.float32]
    """(N, R) Jacobian times direction."""
    curvature: wp.array2d[wp.float32]
    """(N, R) what a row adds to the Hessian, 1 in a cone."""
    cone: wp.array2d[wp.vec4]
    """(N, R) of rows in a cone: scale, unit of the tangent, and in the normal row stiffness and its share across."""
    weighted: wp.array3d[wp.float32]
    """(N, R, V) what is multiplied with the Jacobian to get the Hessian, where there are cones."""
    line: wp.array2d[wp.vec3]
    """(N, 3 R) coefficients of cones along the direction."""


def problem(m: Model, d: Data) -> Problem:
    """Returns the arrays of ``m`` and ``d`` that the solve reads."""
    p = Problem()
    p.num_equalities, p.num_dry_frictions, p.num_rows, p.num_contacts = d.ne, d.nf, d.nefc, d.nacon
    p.max_rows = d.njmax
    p.inertia_number, p.inertia_address, p.inertia_column, p.inertia = m.M_rownnz, m.M_rowadr, m.M_colind, d.M
    p.smooth_force, p.smooth_acceleration, p.last_acceleration = d.qfrc_smooth, d.qacc_smooth, d.qacc_warmstart
    efc, contact = d.efc, d.contact
    p.type, p.object, p.jacobian, p.stiffness = efc.type, efc.id, efc.J, efc.D
    p.reference, p.dry_friction = efc.aref, efc.frictionloss
    p.contact_friction, p.contact_dim, p.contact_row = contact.friction, contact.dim, contact.efc_address
    p.impratio_invsqrt = m.opt.impratio_invsqrt
    p.tolerance, p.line_tolerance = m.opt.tolerance, m.opt.ls_tolerance
    return p


def solution(d: Data) -> Solution:
    """Returns the arrays of ``d`` that the solve writes."""
    s = Solution()
    s.acceleration, s.inertial_force, s.joint_force = d.qacc, d.efc.Ma, d.qfrc_constraint
    s.row_force, s.row_state = d.efc.force, d.efc.state
    s.iterations, s.overflow = d.solver_niter, d.overflow
    return s


def work(num_worlds: int, num_dofs: int, max_rows: int, cones: bool, device: wp.Device) -> Work:
    """Allocates scratch for ``num_worlds`` environments."""
    n, v, r = num_worlds, num_dofs, max_rows
    w = Work()

    def zeros(*shape: int, dtype: type = wp.float32) -> wp.array:
        return wp.zeros(shape, dtype=dtype, device=device)

    w.inertia, w.factor, w.jacobian = zeros(n, v, v), zeros(n, v + 1, v), zeros(n, v, r)
    w.search, w.search_force = zeros(n, v), zeros(n, v)
    w.kind = zeros(n, r, dtype=wp.int32)
    w.residual, w.search_residual, w.curvature = zeros(n, r), zeros(n, r), zeros(n, r)
    w.cone = zeros(n, r if cones else 0, dtype=wp.vec4)
    w.weighted = zeros(n, r if cones else 0, v)
    w.line = zeros(n, 3 * r if cones else 0, dtype=wp.vec3)
    return w
