"""Default state of a scene's entities, written by kernels."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING

import warp as wp

from lab_warp.env import WarpEnv

if TYPE_CHECKING:
    from lab_core.scene import ArticulationData

wp.set_module_options({"enable_backward": False})


def write_default_state(env: WarpEnv, mask: wp.array) -> None:
    """Puts every entity into its default state at the environments' origins and clears its targets and efforts.

    Twin of :meth:`lab_core.scene.Articulation.write_default_state` for all entities: one launch per entity.

    Args:
        env: A Warp environment.
        mask: (N,) bool, the environments to write; other rows stay bitwise unchanged.
    """
    for entity in env.scene.values():
        _write_entity(env, mask, entity.data)


def _write_entity(env: WarpEnv, mask: wp.array, data: ArticulationData) -> None:
    view = data.warp
    wp.launch(
        _write_default_state,
        dim=(env.num_envs, max(data.num_joints, 1)),
        inputs=[
            mask,
            env.warp.env_origins,
            not data.fixed_base,
            view.default_joint_pos,
            view.default_joint_vel,
            view.default_root_pose,
            view.default_root_vel,
        ],
        outputs=[
            view.joint_pos,
            view.joint_vel,
            view.root_link_pose_w,
            view.root_com_vel_w,
            view.joint_pos_target,
            view.joint_vel_target,
            view.joint_effort_target,
            view.applied_effort,
            view.joint_acc,
            env.warp.written,
        ],
        device=env.wp_device,
    )


@wp.kernel
def _write_default_state(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    floating: wp.bool,
    default_joint_pos: wp.array2d[wp.float32],
    default_joint_vel: wp.array2d[wp.float32],
    default_root_pose: wp.array[wp.transform],
    default_root_vel: wp.array[wp.spatial_vector],
    joint_pos: wp.array2d[wp.float32],
    joint_vel: wp.array2d[wp.float32],
    root_link_pose_w: wp.array[wp.transform],
    root_com_vel_w: wp.array[wp.spatial_vector],
    joint_pos_target: wp.array2d[wp.float32],
    joint_vel_target: wp.array2d[wp.float32],
    joint_effort_target: wp.array2d[wp.float32],
    applied_effort: wp.array2d[wp.float32],
    joint_acc: wp.array2d[wp.float32],
    written: wp.array[wp.bool],
):
    """Launch over (N, max(J, 1))."""
    env, joint = wp.tid()
    if not mask[env]:
        return
    if joint < joint_pos.shape[1]:
        joint_pos[env, joint] = default_joint_pos[env, joint]
        joint_vel[env, joint] = default_joint_vel[env, joint]
        joint_pos_target[env, joint] = default_joint_pos[env, joint]
        joint_vel_target[env, joint] = 0.0
        joint_effort_target[env, joint] = 0.0
        applied_effort[env, joint] = 0.0
        joint_acc[env, joint] = 0.0
    if joint == 0:
        if floating:
            pose = default_root_pose[env]
            root_link_pose_w[env] = wp.transform(
                wp.transform_get_translation(pose) + env_origins[env], wp.transform_get_rotation(pose)
            )
            root_com_vel_w[env] = default_root_vel[env]
        written[env] = True
