"""The buffers of an articulation, or of an entity without joints, as a struct for kernels, and its default state."""

from __future__ import annotations

import warp as wp

from lab_core.scene import ArticulationData, Role
from lab_warp.views import array_struct

wp.set_module_options({"enable_backward": False})

ArticulationArrays = array_struct(
    "ArticulationArrays",
    __name__,
    ArticulationData.buffers(Role.STATE, Role.DERIVED, Role.TARGET, Role.DEFAULT),
)
"""What a step and a reset read and write of :class:`lab_core.scene.ArticulationData`; of an entity without joints, such
as a :class:`lab_core.scene.RigidObjectData`, the arrays of joints are empty."""


@wp.func
def default_joint_state(data: ArticulationArrays, env: wp.int32, joint: wp.int32):
    """Puts a joint into its default state and clears its targets and efforts."""
    data.joint_pos[env, joint] = data.default_joint_pos[env, joint]
    data.joint_vel[env, joint] = data.default_joint_vel[env, joint]
    data.joint_pos_target[env, joint] = data.default_joint_pos[env, joint]
    data.joint_vel_target[env, joint] = 0.0
    data.joint_effort_target[env, joint] = 0.0
    data.applied_effort[env, joint] = 0.0
    data.joint_acc[env, joint] = 0.0


@wp.func
def default_root_state(data: ArticulationArrays, env: wp.int32, origin: wp.vec3):
    """Puts the root into its default state at the environment's origin."""
    pose = data.default_root_pose[env]
    data.root_link_pose_w[env] = wp.transform(
        wp.transform_get_translation(pose) + origin, wp.transform_get_rotation(pose)
    )
    data.root_com_vel_w[env] = data.default_root_vel[env]


@wp.kernel
def write_default_state(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    floating: wp.bool,
    data: ArticulationArrays,
    written: wp.array[wp.bool],
):
    """Launch over (N, max(J, 1))."""
    env, joint = wp.tid()
    if not mask[env]:
        return
    if joint < data.joint_pos.shape[1]:
        default_joint_state(data, env, joint)
    if joint == 0:
        if floating:
            default_root_state(data, env, env_origins[env])
        written[env] = True
