"""Inertias, velocities and bias forces of a kinematic tree, for one environment per block of threads.

Composite rigid bodies for the inertia of the joints, and the recursive Newton-Euler algorithm for the bias, in spatial
vectors about the centre of mass of a tree: Featherstone, Rigid Body Dynamics Algorithms, chapters 5 and 6. Where sums
go up or down the tree, each thread takes one component through all bodies, so that they are made in one order.
"""

from __future__ import annotations

import warp as wp
from mujoco_warp import JointType

from lab_newton.solvers.fused import block_kernels as block
from lab_newton.solvers.fused.tree_state_kernels import NO_VELOCITY, Forces, Motion, Tree

wp.set_module_options({"enable_backward": False})

_FREE, _BALL, _SLIDE = (wp.constant(int(kind)) for kind in (JointType.FREE, JointType.BALL, JointType.SLIDE))


@wp.func
def sum_up(t: Tree, values: wp.array2d[wp.float32], c: int, top: int):
    """Adds component ``c`` of every body to that of its parent, but for parents below ``top``."""
    bodies = t.parent.shape[0]
    for back in range(bodies - 1):
        b = bodies - 1 - back
        parent = t.parent[b]
        if parent >= top:
            values[parent, c] = values[parent, c] + values[b, c]


@wp.func
def sum_down(t: Tree, m: Motion, world: int, values: wp.array2d[wp.float32], of_joints: wp.array2d[wp.float32], c: int):
    """Sets component ``c`` of every body to that of its parent and of its own joints times their velocity."""
    for b in range(1, t.parent.shape[0]):
        value = values[t.parent[b], c]
        for dof in range(t.first_dof[b], t.first_dof[b] + t.num_dofs[b]):
            value += of_joints[dof, c] * m.velocity[world, dof]
        values[b, c] = value


@wp.func
def center(t: Tree, m: Motion, world: int, lane: int):
    """Centres of mass of all subtrees."""
    width, bodies = wp.block_dim(), t.parent.shape[0]
    for b in range(lane, bodies, width):
        m.subtree_com[world, b] = t.mass[world % t.mass.shape[0], b] * m.com[world, b]
    block.sync()
    for c in range(lane, 3, width):
        sum_up(t, m.subtree_com_numbers[world], c, 0)
    block.sync()
    for b in range(lane, bodies, width):
        mass = t.subtree_mass[world % t.subtree_mass.shape[0], b]
        if mass != 0.0:
            m.subtree_com[world, b] = m.subtree_com[world, b] / mass
    block.sync()


@wp.func
def set_inertia(t: Tree, m: Motion, world: int, b: int):
    """Inertia of a body about the centre of mass of its tree: xx, yy, zz, xy, xz, yz, mass times offset (3), mass."""
    mass = t.mass[world % t.mass.shape[0], b]
    rotation = m.inertia_rotation[world, b]
    offset = m.com[world, b] - m.subtree_com[world, t.root[b]]
    moments = rotation @ wp.diag(t.inertia[world % t.inertia.shape[0], b]) @ wp.transpose(rotation)
    moments += mass * (wp.dot(offset, offset) * wp.identity(n=3, dtype=wp.float32) - wp.outer(offset, offset))
    own = m.inertia[world, b]
    for i in range(3):
        own[i] = moments[i, i]
        own[6 + i] = mass * offset[i]
    own[3] = moments[0, 1]
    own[4] = moments[0, 2]
    own[5] = moments[1, 2]
    own[9] = mass
    for i in range(10):
        m.composite_inertia[world, b, i] = own[i]


@wp.func
def set_axes(t: Tree, m: Motion, world: int, joint: int):
    """Motion of the bodies behind a joint, for each of its degrees of freedom at velocity one."""
    body, dof, kind = t.joint_body[joint], wp.int32(t.joint_dof[joint]), t.joint_kind[joint]
    offset = m.subtree_com[world, t.root[body]] - m.anchor[world, joint]
    axes = m.axes[world]
    if kind == _FREE or kind == _BALL:
        if kind == _FREE:
            for i in range(3):
                direction = wp.vec3(0.0)
                direction[i] = 1.0
                axes[dof + i] = wp.spatial_vector(wp.vec3(0.0), direction)
            dof += 3
        rotation = wp.transpose(m.rotation[world, body])
        for i in range(3):
            axes[dof + i] = wp.spatial_vector(rotation[i], wp.cross(rotation[i], offset))
    elif kind == _SLIDE:
        axes[dof] = wp.spatial_vector(wp.vec3(0.0), m.axis[world, joint])
    else:
        axes[dof] = wp.spatial_vector(m.axis[world, joint], wp.cross(m.axis[world, joint], offset))


@wp.func
def momentum(inertia: wp.array[wp.float32], v: wp.spatial_vector) -> wp.spatial_vector:
    """Inertia times motion: momentum, or force."""
    angular, linear = wp.spatial_top(v), wp.spatial_bottom(v)
    offset = wp.vec3(inertia[6], inertia[7], inertia[8])
    turned = wp.vec3(
        inertia[0] * angular[0] + inertia[3] * angular[1] + inertia[4] * angular[2],
        inertia[3] * angular[0] + inertia[1] * angular[1] + inertia[5] * angular[2],
        inertia[4] * angular[0] + inertia[5] * angular[1] + inertia[2] * angular[2],
    )
    return wp.spatial_vector(turned + wp.cross(offset, linear), inertia[9] * linear - wp.cross(offset, angular))


@wp.func
def set_joint_inertia(t: Tree, m: Motion, world: int, dof: int):
    """A row of the inertia of the joints, up to its diagonal."""
    force = momentum(m.composite_inertia[world, t.dof_body[dof]], m.axes[world, dof])
    address = t.row_address[dof] + t.row_number[dof] - 1
    added = t.armature[world % t.armature.shape[0], dof]
    other = dof
    while other >= 0:
        m.joint_inertia[world, address] = wp.dot(m.axes[world, other], force) + added
        added = wp.float32(0.0)
        address -= 1
        other = t.dof_parent[other]


@wp.func
def set_axis_change(t: Tree, m: Motion, world: int, dof: int):
    """Change of an axis over time, as its body moves with what comes before it."""
    before, body = t.dof_before[dof], t.dof_body[dof]
    if before == NO_VELOCITY:
        m.axes_change[world, dof] = wp.spatial_vector()
        return
    v = wp.spatial_vector() + m.body_velocity[world, t.parent[body]]
    for other in range(t.first_dof[body], before):
        v += m.axes[world, other] * m.velocity[world, other]
    axis, w = m.axes[world, dof], wp.spatial_top(v)
    turned = wp.cross(wp.spatial_bottom(v), wp.spatial_top(axis)) + wp.cross(w, wp.spatial_bottom(axis))
    m.axes_change[world, dof] = wp.spatial_vector(wp.cross(w, wp.spatial_top(axis)), turned)


@wp.func
def force_of(m: Motion, world: int, b: int) -> wp.spatial_vector:
    """Force that accelerates a body as its joints move without acceleration."""
    v = m.body_velocity[world, b]
    p = momentum(m.inertia[world, b], v)
    w, angular, linear = wp.spatial_top(v), wp.spatial_top(p), wp.spatial_bottom(p)
    gyroscopic = wp.spatial_vector(wp.cross(w, angular) + wp.cross(wp.spatial_bottom(v), linear), wp.cross(w, linear))
    return momentum(m.inertia[world, b], m.body_acceleration[world, b]) + gyroscopic


@wp.kernel(enable_backward=False)
def compute_tree(t: Tree, m: Motion):
    """Everything of one environment. Launch over N blocks."""
    world, lane = wp.tid()
    width, bodies, dofs = wp.block_dim(), t.parent.shape[0], t.dof_body.shape[0]
    center(t, m, world, lane)
    for b in range(lane, bodies, width):
        set_inertia(t, m, world, b)
    for joint in range(lane, t.joint_body.shape[0], width):
        set_axes(t, m, world, joint)
    for c in range(lane, 6, width):
        m.body_velocity_numbers[world, 0, c] = 0.0
        if t.has_gravity != 0 and c >= 3:
            m.body_acceleration_numbers[world, 0, c] = -t.gravity[world % t.gravity.shape[0]][c - 3]
        else:
            m.body_acceleration_numbers[world, 0, c] = 0.0
    block.sync()
    for c in range(lane, 16, width):
        if c < 10:
            sum_up(t, m.composite_inertia[world], c, 1)
        else:
            sum_down(t, m, world, m.body_velocity_numbers[world], m.axes_numbers[world], c - 10)
    block.sync()
    for dof in range(lane, dofs, width):
        set_joint_inertia(t, m, world, dof)
        set_axis_change(t, m, world, dof)
    block.sync()
    for c in range(lane, 6, width):
        sum_down(t, m, world, m.body_acceleration_numbers[world], m.axes_change_numbers[world], c)
    block.sync()
    for b in range(lane, bodies, width):
        if b == 0:
            m.body_force[world, 0] = wp.spatial_vector()
        else:
            m.body_force[world, b] = force_of(m, world, b)
    block.sync()
    for c in range(lane, 6, width):
        sum_up(t, m.body_force_numbers[world], c, 0)
    block.sync()
    for dof in range(lane, dofs, width):
        m.bias_force[world, dof] = wp.dot(m.axes[world, dof], m.body_force[world, t.dof_body[dof]])


@wp.kernel(enable_backward=False)
def add_forces(t: Tree, m: Motion, f: Forces):
    """All forces on a degree of freedom but those of constraints. Launch over (N, V)."""
    world, dof = wp.tid()
    body, axis = t.dof_body[dof], m.axes[world, dof]
    force = f.passive[world, dof] + f.actuator[world, dof] + f.applied[world, dof] - m.bias_force[world, dof]
    for b in range(body, body + t.num_below[body]):
        push, torque = wp.spatial_top(f.wrench[world, b]), wp.spatial_bottom(f.wrench[world, b])
        offset = m.com[world, b] - m.subtree_com[world, t.root[body]]
        force += wp.dot(wp.spatial_bottom(axis), push) + wp.dot(wp.spatial_top(axis), torque + wp.cross(offset, push))
    f.smooth[world, dof] = force
