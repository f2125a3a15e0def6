"""Kernels that carry state between an entity's buffers and Newton's flat arrays.

Newton stores all worlds one after another. ``EntityArrays`` holds an entity's buffers together with where its joints
and bodies lie inside the slice of one world.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.struct
class EntityArrays:
    """Buffers of :class:`lab_core.scene.ArticulationData` and their places in Newton's arrays."""

    joint_pos: wp.array2d[wp.float32]
    joint_vel: wp.array2d[wp.float32]
    root_link_pose_w: wp.array[wp.transform]
    root_com_vel_w: wp.array[wp.spatial_vector]

    joint_acc: wp.array2d[wp.float32]
    root_link_vel_w: wp.array[wp.spatial_vector]
    root_com_lin_vel_b: wp.array[wp.vec3]
    root_link_lin_vel_b: wp.array[wp.vec3]
    root_ang_vel_b: wp.array[wp.vec3]
    projected_gravity_b: wp.array[wp.vec3]
    heading_w: wp.array[wp.float32]
    body_link_pose_w: wp.array2d[wp.transform]
    body_com_vel_w: wp.array2d[wp.spatial_vector]

    joint_pos_target: wp.array2d[wp.float32]
    joint_vel_target: wp.array2d[wp.float32]
    joint_effort_target: wp.array2d[wp.float32]
    applied_effort: wp.array2d[wp.float32]

    default_joint_pos: wp.array2d[wp.float32]
    default_joint_vel: wp.array2d[wp.float32]
    default_root_pose: wp.array[wp.transform]
    default_root_vel: wp.array[wp.spatial_vector]

    # Places of each joint's coordinate and degree of freedom, of each body, and of the root, in the slice of a world.
    joint_coord: wp.array[wp.int32]
    joint_dof: wp.array[wp.int32]
    body: wp.array[wp.int32]
    root_coord: wp.int32
    root_dof: wp.int32
    floating: wp.bool
    # Sizes of the slices.
    coords_per_world: wp.int32
    dofs_per_world: wp.int32
    bodies_per_world: wp.int32


@wp.kernel
def write_state(
    mask: wp.array[wp.bool], entity: EntityArrays, joint_q: wp.array[wp.float32], joint_qd: wp.array[wp.float32]
):
    """Buffers -> Newton, for the worlds of ``mask``. Launch over (N, max(J, 1))."""
    world, i = wp.tid()
    if mask[world]:
        _write_state(entity, world, i, joint_q, joint_qd)


@wp.kernel
def restore_default(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    entity: EntityArrays,
    joint_q: wp.array[wp.float32],
    joint_qd: wp.array[wp.float32],
):
    """Default state, cleared targets and efforts, for the worlds of ``mask``. Launch over (N, max(J, 1))."""
    world, i = wp.tid()
    if not mask[world]:
        return
    if i < entity.joint_coord.shape[0]:
        entity.joint_pos[world, i] = entity.default_joint_pos[world, i]
        entity.joint_vel[world, i] = entity.default_joint_vel[world, i]
        entity.joint_pos_target[world, i] = entity.default_joint_pos[world, i]
        entity.joint_vel_target[world, i] = 0.0
        entity.joint_effort_target[world, i] = 0.0
        entity.applied_effort[world, i] = 0.0
    if i == 0 and entity.floating:
        pose = entity.default_root_pose[world]
        entity.root_link_pose_w[world] = wp.transform(
            wp.transform_get_translation(pose) + env_origins[world], wp.transform_get_rotation(pose)
        )
        entity.root_com_vel_w[world] = entity.default_root_vel[world]
    _write_state(entity, world, i, joint_q, joint_qd)


@wp.func
def _write_state(
    entity: EntityArrays, world: wp.int32, i: wp.int32, joint_q: wp.array[wp.float32], joint_qd: wp.array[wp.float32]
):
    coord = world * entity.coords_per_world
    dof = world * entity.dofs_per_world
    if i < entity.joint_coord.shape[0]:
        joint_q[coord + entity.joint_coord[i]] = entity.joint_pos[world, i]
        joint_qd[dof + entity.joint_dof[i]] = entity.joint_vel[world, i]
    if i == 0 and entity.floating:
        for k in range(7):
            joint_q[coord + entity.root_coord + k] = entity.root_link_pose_w[world][k]
        for k in range(6):
            joint_qd[dof + entity.root_dof + k] = entity.root_com_vel_w[world][k]


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
    entity: EntityArrays,
    written: wp.array[wp.bool],
):
    """Newton -> buffers, with the derived state. Launch over (N, max(J, B) + 1): the last thread takes the root.

    Without ``mask`` for all worlds, which then have no authored state left. ``joint_acc`` is updated if
    ``inverse_elapsed`` [1/s] is positive; ``joint_vel`` still holds the velocity at the start of that time.
    """
    world, i = wp.tid()
    if mask and not mask[world]:
        return
    if i < entity.joint_coord.shape[0]:
        velocity = joint_qd[world * entity.dofs_per_world + entity.joint_dof[i]]
        if inverse_elapsed > 0.0:
            entity.joint_acc[world, i] = (velocity - entity.joint_vel[world, i]) * inverse_elapsed
        entity.joint_pos[world, i] = joint_q[world * entity.coords_per_world + entity.joint_coord[i]]
        entity.joint_vel[world, i] = velocity
    if i < entity.body.shape[0]:
        body = world * entity.bodies_per_world + entity.body[i]
        entity.body_link_pose_w[world, i] = body_q[body]
        entity.body_com_vel_w[world, i] = body_qd[body]
    if i == wp.max(entity.joint_coord.shape[0], entity.body.shape[0]):
        if not mask:
            written[world] = False
        root = world * entity.bodies_per_world + entity.body[0]
        pose = body_q[root]
        com_vel = body_qd[root]
        if entity.floating:
            coord = world * entity.coords_per_world + entity.root_coord
            dof = world * entity.dofs_per_world + entity.root_dof
            for k in range(7):
                pose[k] = joint_q[coord + k]
            for k in range(6):
                com_vel[k] = joint_qd[dof + k]
        _derive_root_state(entity, world, pose, com_vel, body_com[root], gravity[world])


@wp.func
def _derive_root_state(
    entity: EntityArrays,
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

    entity.root_link_pose_w[world] = pose
    entity.root_com_vel_w[world] = com_vel
    entity.root_link_vel_w[world] = wp.spatial_vector(link_lin_vel, ang_vel)
    entity.root_com_lin_vel_b[world] = wp.quat_rotate_inv(rotation, com_lin_vel)
    entity.root_link_lin_vel_b[world] = wp.quat_rotate_inv(rotation, link_lin_vel)
    entity.root_ang_vel_b[world] = wp.quat_rotate_inv(rotation, ang_vel)
    entity.projected_gravity_b[world] = wp.quat_rotate_inv(rotation, wp.normalize(gravity))
    entity.heading_w[world] = wp.atan2(forward[1], forward[0])


@wp.kernel
def write_targets(
    entity: EntityArrays,
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
    dof = world * entity.dofs_per_world + entity.joint_dof[joint]
    position = entity.joint_pos_target[world, joint]
    velocity = entity.joint_vel_target[world, joint]
    effort = entity.joint_effort_target[world, joint]
    target_q[world * entity.coords_per_world + entity.joint_coord[joint]] = position
    target_qd[dof] = velocity
    feed_forward[dof] = effort
    if not (wp.isfinite(position) and wp.isfinite(velocity) and wp.isfinite(effort)):
        non_finite[world] = True


@wp.kernel
def read_effort(joint_f: wp.array[wp.float32], entity: EntityArrays):
    """Effort that the solver is about to receive -> buffer. Launch over (N, J)."""
    world, joint = wp.tid()
    entity.applied_effort[world, joint] = joint_f[world * entity.dofs_per_world + entity.joint_dof[joint]]
