"""Kernels that carry state between an articulation's buffers and Newton's flat arrays.

Newton stores all worlds one after another. ``Places`` says where the joints and bodies of an articulation lie inside
the slice of one world.
"""

from __future__ import annotations

import warp as wp

from lab_warp.articulation_kernels import ArticulationArrays, default_joint_state, default_root_state

wp.set_module_options({"enable_backward": False})


@wp.struct
class Places:
    """Where an articulation lies in Newton's arrays."""

    # Places of each joint's coordinate and degree of freedom, of each body, and of the root, in the slice of a world.
    joint_coord: wp.array[wp.int32]
    joint_dof: wp.array[wp.int32]
    body: wp.array[wp.int32]
    # The joint that each joint follows, -1 for none, and the coefficients (J, 5) of the polynomial by which it does.
    leader: wp.array[wp.int32]
    follows: wp.array2d[wp.float32]
    root_coord: wp.int32
    root_dof: wp.int32
    floating: wp.bool
    # Sizes of the slices.
    coords_per_world: wp.int32
    dofs_per_world: wp.int32
    bodies_per_world: wp.int32


@wp.kernel
def write_state(
    mask: wp.array[wp.bool],
    data: ArticulationArrays,
    places: Places,
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
):
    """Buffers -> Newton, for the worlds of ``mask``. Launch over (N, max(J, 1))."""
    world, i = wp.tid()
    if mask[world]:
        if i < places.joint_coord.shape[0]:
            if places.leader[i] >= 0:
                _follow(data, places, world, i)
        _write_state(data, places, world, i, joint_q, joint_qd)


@wp.func
def _follow(data: ArticulationArrays, places: Places, world: wp.int32, i: wp.int32):
    """Puts a joint that follows another one where that demands, whatever was written."""
    x = data.joint_pos[world, places.leader[i]]
    value = 0.0
    slope = 0.0
    for k in range(5):  # Horner's rule, with the derivative beside it
        slope = slope * x + value
        value = value * x + places.follows[i, 4 - k]
    data.joint_pos[world, i] = value
    data.joint_vel[world, i] = slope * data.joint_vel[world, places.leader[i]]


@wp.kernel
def restore_default(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    data: ArticulationArrays,
    places: Places,
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
):
    """Default state, cleared targets and efforts, for the worlds of ``mask``. Launch over (N, max(J, 1))."""
    world, i = wp.tid()
    if not mask[world]:
        return
    if i < places.joint_coord.shape[0]:
        default_joint_state(data, world, i)
    if i == 0 and places.floating:
        default_root_state(data, world, env_origins[world])
    _write_state(data, places, world, i, joint_q, joint_qd)


@wp.func
def _write_state(
    data: ArticulationArrays,
    places: Places,
    world: wp.int32,
    i: wp.int32,
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
):
    coord = world * places.coords_per_world
    dof = world * places.dofs_per_world
    if i < places.joint_coord.shape[0]:
        joint_q[coord + places.joint_coord[i]] = data.joint_pos[world, i]
        joint_qd[dof + places.joint_dof[i]] = data.joint_vel[world, i]
    if i == 0 and places.floating:
        for k in range(7):
            joint_q[coord + places.root_coord + k] = data.root_link_pose_w[world][k]
        for k in range(6):
            joint_qd[dof + places.root_dof + k] = data.root_com_vel_w[world][k]


@wp.kernel
def read_state(
    mask: wp.array[wp.bool],
    inverse_elapsed: wp.float32,
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    body_com: wp.array[wp.vec3],
    gravity: wp.array[wp.vec3],
    data: ArticulationArrays,
    places: Places,
    written: wp.array[wp.bool],
):
    """Newton -> buffers, with the derived state. Launch over (N, max(J, B) + 1): the last thread takes the root.

    Without ``mask`` for all worlds, which then have no authored state left. ``joint_acc`` is updated if
    ``inverse_elapsed`` [1/s] is positive; ``joint_vel`` still holds the velocity at the start of that time.
    """
    world, i = wp.tid()
    if mask and not mask[world]:
        return
    if i < places.joint_coord.shape[0]:
        velocity = joint_qd[world * places.dofs_per_world + places.joint_dof[i]]
        if inverse_elapsed > 0.0:
            data.joint_acc[world, i] = (velocity - data.joint_vel[world, i]) * inverse_elapsed
        data.joint_pos[world, i] = joint_q[world * places.coords_per_world + places.joint_coord[i]]
        data.joint_vel[world, i] = velocity
    if i < places.body.shape[0]:
        body = world * places.bodies_per_world + places.body[i]
        data.body_link_pose_w[world, i] = body_q[body]
        data.body_com_vel_w[world, i] = body_qd[body]
    if i == wp.max(places.joint_coord.shape[0], places.body.shape[0]):
        if not mask:
            written[world] = False
        root = world * places.bodies_per_world + places.body[0]
        pose = body_q[root]
        com_vel = body_qd[root]
        if places.floating:
            coord = world * places.coords_per_world + places.root_coord
            dof = world * places.dofs_per_world + places.root_dof
            for k in range(7):
                pose[k] = joint_q[coord + k]
            for k in range(6):
                com_vel[k] = joint_qd[dof + k]
        _derive_root_state(data, world, pose, com_vel, body_com[root], gravity[world])


@wp.func
def _derive_root_state(
    data: ArticulationArrays,
    world: wp.int32,
    pose: wp.transform,
    com_vel: wp.spatial_vector,
    com_b: wp.vec3,
    gravity: wp.vec3,
):
    rotation = wp.transform_get_rotation(pose)
    com_lin_vel = wp.spatial_top(com_vel)
    ang_vel = wp.spatial_bottom(com_vel)
    # Rigid body: the frame origin lies at -R c from the centre of mass, so v_link = v_com - w x (R c).
    link_lin_vel = com_lin_vel - wp.cross(ang_vel, wp.quat_rotate(rotation, com_b))
    forward = wp.quat_rotate(rotation, wp.vec3(1.0, 0.0, 0.0))

    data.root_link_pose_w[world] = pose
    data.root_com_vel_w[world] = com_vel
    data.root_link_vel_w[world] = wp.spatial_vector(link_lin_vel, ang_vel)
    data.root_com_lin_vel_b[world] = wp.quat_rotate_inv(rotation, com_lin_vel)
    data.root_link_lin_vel_b[world] = wp.quat_rotate_inv(rotation, link_lin_vel)
    data.root_ang_vel_b[world] = wp.quat_rotate_inv(rotation, ang_vel)
    data.projected_gravity_b[world] = wp.quat_rotate_inv(rotation, wp.normalize(gravity))
    data.heading_w[world] = wp.atan2(forward[1], forward[0])


@wp.kernel
def write_targets(
    data: ArticulationArrays,
    places: Places,
    target_q: wp.array[wp.float32],
    target_qd: wp.array[wp.float32],
    feed_forward: wp.array[wp.float32],
    non_finite: wp.array[wp.bool],
):
    """Targets -> the arrays that Newton's actuators read. Launch over (N, J).

    Marks worlds with a NaN or an infinity in their targets: the clip of the effort would make an ordinary number of
    it, the limit.
    """
    world, joint = wp.tid()
    dof = world * places.dofs_per_world + places.joint_dof[joint]
    position = data.joint_pos_target[world, joint]
    velocity = data.joint_vel_target[world, joint]
    effort = data.joint_effort_target[world, joint]
    target_q[world * places.coords_per_world + places.joint_coord[joint]] = position
    target_qd[dof] = velocity
    feed_forward[dof] = effort
    if not (wp.isfinite(position) and wp.isfinite(velocity) and wp.isfinite(effort)):
        non_finite[world] = True


@wp.kernel
def read_effort(joint_f: wp.array[wp.float32], data: ArticulationArrays, places: Places):
    """Effort that the solver is about to receive -> buffer. Launch over (N, J)."""
    world, joint = wp.tid()
    data.applied_effort[world, joint] = joint_f[world * places.dofs_per_world + places.joint_dof[joint]]
