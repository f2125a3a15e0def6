"""What the kernel of the kinematic tree reads and writes: arrays of MuJoCo Warp."""

from __future__ import annotations

import numpy as np
import warp as wp
from mujoco_warp import Data, DisableBit, JointType, Model

NO_VELOCITY = wp.constant(-1)
"""Of a degree of freedom whose axis stays as it is: translation of a free joint."""


@wp.struct
class Tree:
    """How bodies and joints hang together, and what they weigh. Bodies come after their parents."""

    parent: wp.array[wp.int32]
    root: wp.array[wp.int32]
    first_dof: wp.array[wp.int32]
    num_dofs: wp.array[wp.int32]
    num_below: wp.array[wp.int32]
    """Bodies of a subtree, its root included. They follow each other."""
    mass: wp.array2d[wp.float32]
    subtree_mass: wp.array2d[wp.float32]
    inertia: wp.array2d[wp.vec3]
    joint_kind: wp.array[wp.int32]
    joint_dof: wp.array[wp.int32]
    joint_body: wp.array[wp.int32]
    dof_body: wp.array[wp.int32]
    dof_parent: wp.array[wp.int32]
    dof_before: wp.array[wp.int32]
    """First degree of freedom of the same body that does not move this one's axis, or :data:`NO_VELOCITY`."""
    armature: wp.array2d[wp.float32]
    row_number: wp.array[wp.int32]
    row_address: wp.array[wp.int32]
    gravity: wp.array[wp.vec3]
    has_gravity: wp.int32


@wp.struct
class Motion:
    """State of N environments. ``..._numbers``: the same memory as single numbers (N, ..., components)."""

    velocity: wp.array2d[wp.float32]
    com: wp.array2d[wp.vec3]
    rotation: wp.array2d[wp.mat33]
    inertia_rotation: wp.array2d[wp.mat33]
    anchor: wp.array2d[wp.vec3]
    axis: wp.array2d[wp.vec3]
    # written
    subtree_com: wp.array2d[wp.vec3]
    subtree_com_numbers: wp.array3d[wp.float32]
    inertia: wp.array3d[wp.float32]
    composite_inertia: wp.array3d[wp.float32]
    joint_inertia: wp.array2d[wp.float32]
    axes: wp.array2d[wp.spatial_vector]
    axes_numbers: wp.array3d[wp.float32]
    axes_change: wp.array2d[wp.spatial_vector]
    axes_change_numbers: wp.array3d[wp.float32]
    body_velocity: wp.array2d[wp.spatial_vector]
    body_velocity_numbers: wp.array3d[wp.float32]
    body_acceleration: wp.array2d[wp.spatial_vector]
    body_acceleration_numbers: wp.array3d[wp.float32]
    body_force: wp.array2d[wp.spatial_vector]
    body_force_numbers: wp.array3d[wp.float32]
    bias_force: wp.array2d[wp.float32]


@wp.struct
class Forces:
    """Forces on the joints of N environments, constraints left out, and their sum."""

    passive: wp.array2d[wp.float32]
    actuator: wp.array2d[wp.float32]
    applied: wp.array2d[wp.float32]
    wrench: wp.array2d[wp.spatial_vector]
    """Force and torque at the centre of mass of each body."""
    smooth: wp.array2d[wp.float32]


def tree(m: Model) -> Tree:
    """Returns the arrays of ``m`` that describe its tree."""
    t = Tree()
    t.parent, t.root, t.first_dof, t.num_dofs = m.body_parentid, m.body_rootid, m.body_dofadr, m.body_dofnum
    t.num_below = m.body_subtreenum
    t.mass, t.subtree_mass, t.inertia = m.body_mass, m.body_subtreemass, m.body_inertia
    t.joint_kind, t.joint_dof, t.joint_body = m.jnt_type, m.jnt_dofadr, m.jnt_bodyid
    t.dof_body, t.dof_parent, t.armature = m.dof_bodyid, m.dof_parentid, m.dof_armature
    t.dof_before = wp.array(_before(m), dtype=wp.int32, device=m.dof_bodyid.device)
    t.row_number, t.row_address = m.M_rownnz, m.M_rowadr
    t.gravity, t.has_gravity = m.opt.gravity, int(not m.opt.disableflags & DisableBit.GRAVITY)
    return t


def motion(d: Data) -> Motion:
    """Returns the arrays of ``d`` that the kernel reads and writes."""
    s = Motion()
    s.velocity, s.com, s.rotation, s.inertia_rotation = d.qvel, d.xipos, d.xmat, d.ximat
    s.anchor, s.axis = d.xanchor, d.xaxis
    s.subtree_com, s.subtree_com_numbers = d.subtree_com, _numbers(d.subtree_com, 3)
    s.inertia, s.composite_inertia, s.joint_inertia = _numbers(d.cinert, 10), _numbers(d.crb, 10), d.M
    s.axes, s.axes_numbers = d.cdof, _numbers(d.cdof, 6)
    s.axes_change, s.axes_change_numbers = d.cdof_dot, _numbers(d.cdof_dot, 6)
    s.body_velocity, s.body_velocity_numbers = d.cvel, _numbers(d.cvel, 6)
    s.body_acceleration, s.body_acceleration_numbers = d.cacc, _numbers(d.cacc, 6)
    s.body_force, s.body_force_numbers = d.cfrc_int, _numbers(d.cfrc_int, 6)
    s.bias_force = d.qfrc_bias
    return s


def forces(d: Data) -> Forces:
    """Returns the arrays of ``d`` that hold forces."""
    f = Forces()
    f.passive, f.actuator, f.applied = d.qfrc_passive, d.qfrc_actuator, d.qfrc_applied
    f.wrench, f.smooth = d.xfrc_applied, d.qfrc_smooth
    return f


def _before(m: Model) -> np.ndarray:
    """A ball turns with all that comes before it, and so do the rotations of a free joint, after its translations."""
    kinds, first = m.jnt_type.numpy(), m.jnt_dofadr.numpy()
    before = np.arange(m.nv, dtype=np.int32)
    for kind, dof in zip(kinds, first, strict=True):
        if kind == JointType.FREE:
            before[dof : dof + 3], before[dof + 3 : dof + 6] = -1, dof + 3
        elif kind == JointType.BALL:
            before[dof : dof + 3] = dof
    return before


def _numbers(array: wp.array, width: int) -> wp.array:
    """Returns the memory of (N, K) vectors as (N, K, width) numbers."""
    shape = (*array.shape, width)
    return wp.array(ptr=array.ptr, dtype=wp.float32, shape=shape, capacity=array.capacity, device=array.device)
