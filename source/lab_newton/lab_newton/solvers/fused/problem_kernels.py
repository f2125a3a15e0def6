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

BLOCK = 4
"""Numbers that are read at once. Vectors are padded to whole blocks: of B blocks, with zeros."""


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
    last_acceleration: wp.array2d[wp.float32]
    # of rows
    type: wp.array2d[wp.int32]
    object: wp.array2d[wp.int32]
    jacobian: wp.array3d[wp.vec4]
    """(N, R, B)."""
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

    smooth_acceleration: wp.array2d[wp.float32]
    """(N, V) without constraints."""
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
    """(N, 4 B, 4 B), dense, with ones on the diagonal behind the last degree of freedom."""
    inertia_blocks: wp.array3d[wp.vec4]
    """(N, 4 B, B), the same memory."""
    factor: wp.array3d[wp.vec4]
    """(N, 4 B + 1, B): the Hessian's Cholesky factor but for its diagonal blocks, and in the last row the gradient."""
    diagonal: wp.array2d[wp.mat44]
    """(N, B): diagonal blocks of the factor, with one over its diagonal."""
    search: wp.array2d[wp.float32]
    """(N, 4 B) direction."""
    search_blocks: wp.array2d[wp.vec4]
    """(N, B), the same memory."""
    search_force: wp.array2d[wp.float32]
    """(N, V) inertia times direction."""
    kind: wp.array2d[wp.int32]
    """(N, R)."""
    residual: wp.array2d[wp.float32]
    """(N, R) Jacobian times acceleration, less the reference."""
    search_residual: wp.array2d[wp.float32]
    """(N, R) Jacobian times direction."""
    curvature: wp.array2d[wp.float32]
    """(N, R) what a row adds to the Hessian; negative: the normal row of a contact within its cone."""
    cone_dim: wp.array2d[wp.int32]
    """(N, R) in the normal row of a contact, its number of rows, which follow each other."""
    cone_scale: wp.array2d[wp.float32]
    """(N, R) factors of a contact's rows that make its cone circular."""
    cone: wp.array2d[wp.vec3]
    """(N, R) of rows in a cone: unit of the tangent, and in the normal row stiffness and its share across."""
    line: wp.array2d[wp.vec3]
    """(N, 3 R) coefficients of cones along the direction."""


def problem(m: Model, d: Data) -> Problem:
    """Returns the arrays of ``m`` and ``d`` that the solve reads."""
    p = Problem()
    p.num_equalities, p.num_dry_frictions, p.num_rows, p.num_contacts = d.ne, d.nf, d.nefc, d.nacon
    p.max_rows = d.njmax
    p.inertia_number, p.inertia_address, p.inertia_column, p.inertia = m.M_rownnz, m.M_rowadr, m.M_colind, d.M
    p.smooth_force, p.last_acceleration = d.qfrc_smooth, d.qacc_warmstart
    efc, contact = d.efc, d.contact
    p.type, p.object, p.jacobian, p.stiffness = efc.type, efc.id, _in_blocks(efc.J), efc.D
    p.reference, p.dry_friction = efc.aref, efc.frictionloss
    p.contact_friction, p.contact_dim, p.contact_row = contact.friction, contact.dim, contact.efc_address
    p.impratio_invsqrt = m.opt.impratio_invsqrt
    p.tolerance, p.line_tolerance = m.opt.tolerance, m.opt.ls_tolerance
    return p


def solution(d: Data) -> Solution:
    """Returns the arrays of ``d`` that the solve writes."""
    s = Solution()
    s.smooth_acceleration, s.acceleration, s.inertial_force, s.joint_force = (
        d.qacc_smooth,
        d.qacc,
        d.efc.Ma,
        d.qfrc_constraint,
    )
    s.row_force, s.row_state = d.efc.force, d.efc.state
    s.iterations, s.overflow = d.solver_niter, d.overflow
    return s


def work(num_worlds: int, num_dofs: int, max_rows: int, cones: bool, device: wp.Device) -> Work:
    """Allocates scratch for ``num_worlds`` environments."""
    n, r = num_worlds, max_rows
    blocks = num_blocks(num_dofs)
    w = Work()

    def zeros(*shape: int, dtype: type = wp.float32) -> wp.array:
        return wp.zeros(shape, dtype=dtype, device=device)

    w.inertia = zeros(n, BLOCK * blocks, BLOCK * blocks)
    w.inertia_blocks = _in_blocks(w.inertia)
    w.factor, w.diagonal = zeros(n, BLOCK * blocks + 1, blocks, dtype=wp.vec4), zeros(n, blocks, dtype=wp.mat44)
    w.search, w.search_force = zeros(n, BLOCK * blocks), zeros(n, num_dofs)
    w.search_blocks = _in_blocks(w.search)
    w.kind = zeros(n, r, dtype=wp.int32)
    w.residual, w.search_residual, w.curvature = zeros(n, r), zeros(n, r), zeros(n, r)
    rows = r if cones else 0
    w.cone_dim, w.cone_scale = zeros(n, rows, dtype=wp.int32), zeros(n, rows)
    w.cone, w.line = zeros(n, rows, dtype=wp.vec3), zeros(n, 3 * rows, dtype=wp.vec3)
    return w


def num_blocks(num_dofs: int) -> int:
    """Returns the number of blocks that hold a vector of ``num_dofs``."""
    return -(-num_dofs // BLOCK)


def _in_blocks(array: wp.array) -> wp.array:
    """Returns the memory of (N, R, 4 B) numbers as (N, R, B) blocks, or of (N, 4 B) as (N, B)."""
    *shape, width = array.shape
    if width % BLOCK or not array.is_contiguous:
        raise ValueError(f"rows of {width} numbers are no blocks of {BLOCK}")
    return wp.array(
        ptr=array.ptr, dtype=wp.vec4, shape=(*shape, width // BLOCK), capacity=array.capacity, device=array.device
    )
