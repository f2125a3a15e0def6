"""Twins of :mod:`lab_core.mdp.events`, which says what they do.

Only environments of the mask draw, each from its own stream: the position and then the velocity of one joint after the
other; x, y, z, roll, pitch and yaw of a pose, then of a velocity. A range without width draws too.
"""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.errors import LabError
from lab_core.managers import SceneEntityCfg
from lab_core.managers.manager_base import check_range
from lab_core.scene import ArticulationData
from lab_warp.env import WarpEnv
from lab_warp.mdp.draws import bounds, uniform
from lab_warp.mdp.functions import clamp
from lab_warp.mdp.rotations import quat_from_euler_xyz, quat_mul
from lab_warp.scene import write_default_state
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_ROBOT = SceneEntityCfg("robot")
_SIX = ("x", "y", "z", "roll", "pitch", "yaw")
_Range = tuple[float, float]


@twin_of(mdp.reset_scene_to_default)
def reset_scene_to_default(env: WarpEnv, mask: wp.array) -> None:
    write_default_state(env, mask)


# Joints -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.reset_joints_by_offset)
def reset_joints_by_offset(
    env: WarpEnv,
    mask: wp.array,
    position_range: _Range,
    velocity_range: _Range,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    _reset_joints(env, mask, position_range, velocity_range, asset_cfg, scales=False)


@twin_of(mdp.reset_joints_by_scale)
def reset_joints_by_scale(
    env: WarpEnv,
    mask: wp.array,
    position_range: _Range,
    velocity_range: _Range,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    _reset_joints(env, mask, position_range, velocity_range, asset_cfg, scales=True)


def _reset_joints(
    env: WarpEnv,
    mask: wp.array,
    position_range: _Range,
    velocity_range: _Range,
    asset_cfg: SceneEntityCfg,
    scales: bool,
) -> None:
    check_range(position_range, "position_range")
    check_range(velocity_range, "velocity_range")
    data = env.scene[asset_cfg.name].data.warp
    wp.launch(
        _draw_joint_state,
        dim=env.num_envs,
        inputs=[
            mask,
            joint_index(asset_cfg),
            data.default_joint_pos,
            data.default_joint_vel,
            data.soft_joint_pos_limits,
            wp.vec2(*position_range),
            wp.vec2(*velocity_range),
            scales,
        ],
        outputs=[env.warp.rng, data.joint_pos, data.joint_vel, env.warp.written],
        device=env.wp_device,
    )


@wp.kernel
def _draw_joint_state(
    mask: wp.array[wp.bool],
    joints: wp.array[wp.int32],
    default_pos: wp.array2d[wp.float32],
    default_vel: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    pos_range: wp.vec2,
    vel_range: wp.vec2,
    scales: wp.bool,
    rng_state: wp.array[wp.uint32],
    joint_pos: wp.array2d[wp.float32],
    joint_vel: wp.array2d[wp.float32],
    written: wp.array[wp.bool],
):
    """Default plus, or times, a draw. Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    rng = rng_state[env]
    for k in range(joints.shape[0]):
        joint = joints[k]
        position = wp.randf(rng, pos_range[0], pos_range[1])
        velocity = wp.randf(rng, vel_range[0], vel_range[1])
        if scales:
            position = default_pos[env, joint] * position
            velocity = default_vel[env, joint] * velocity
        else:
            position = default_pos[env, joint] + position
            velocity = default_vel[env, joint] + velocity
        joint_pos[env, joint] = clamp(position, limits[env, joint][0], limits[env, joint][1])
        joint_vel[env, joint] = velocity
    rng_state[env] = rng
    written[env] = True


# Root -------------------------------------------------------------------------------------------------------------


@twin_of(mdp.reset_root_state_uniform)
def reset_root_state_uniform(
    env: WarpEnv,
    mask: wp.array,
    pose_range: dict[str, _Range],
    velocity_range: dict[str, _Range],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    data = _floating_base(env, asset_cfg, "pose").warp
    wp.launch(
        _draw_root_state,
        dim=env.num_envs,
        inputs=[
            mask,
            env.warp.env_origins,
            data.default_root_pose,
            data.default_root_vel,
            *_bounds(pose_range, "pose_range"),
            *_bounds(velocity_range, "velocity_range"),
        ],
        outputs=[env.warp.rng, data.root_link_pose_w, data.root_com_vel_w, env.warp.written],
        device=env.wp_device,
    )


@wp.kernel
def _draw_root_state(
    mask: wp.array[wp.bool],
    env_origins: wp.array[wp.vec3],
    default_pose: wp.array[wp.transform],
    default_vel: wp.array[wp.spatial_vector],
    pose_low: wp.spatial_vector,
    pose_high: wp.spatial_vector,
    vel_low: wp.spatial_vector,
    vel_high: wp.spatial_vector,
    rng_state: wp.array[wp.uint32],
    root_pose: wp.array[wp.transform],
    root_vel: wp.array[wp.spatial_vector],
    written: wp.array[wp.bool],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    pose, rng = uniform(pose_low, pose_high, rng_state[env])
    velocity, rng = uniform(vel_low, vel_high, rng)
    rng_state[env] = rng
    default = default_pose[env]
    root_pose[env] = wp.transform(
        wp.transform_get_translation(default) + env_origins[env] + wp.spatial_top(pose),
        quat_mul(wp.transform_get_rotation(default), quat_from_euler_xyz(pose[3], pose[4], pose[5])),
    )
    root_vel[env] = default_vel[env] + velocity
    written[env] = True


@twin_of(mdp.push_by_setting_velocity)
def push_by_setting_velocity(
    env: WarpEnv,
    mask: wp.array,
    velocity_range: dict[str, _Range],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    data = _floating_base(env, asset_cfg, "velocity").warp
    wp.launch(
        _push,
        dim=env.num_envs,
        inputs=[mask, *_bounds(velocity_range, "velocity_range")],
        outputs=[env.warp.rng, data.root_com_vel_w, env.warp.written],
        device=env.wp_device,
    )


@wp.kernel
def _push(
    mask: wp.array[wp.bool],
    low: wp.spatial_vector,
    high: wp.spatial_vector,
    rng_state: wp.array[wp.uint32],
    root_vel: wp.array[wp.spatial_vector],
    written: wp.array[wp.bool],
):
    """Launch over N."""
    env = wp.tid()
    if not mask[env]:
        return
    velocity, rng = uniform(low, high, rng_state[env])
    rng_state[env] = rng
    root_vel[env] = root_vel[env] + velocity
    written[env] = True


def _floating_base(env: WarpEnv, asset_cfg: SceneEntityCfg, what: str) -> ArticulationData:
    data = env.scene[asset_cfg.name].data
    if data.fixed_base:
        raise LabError(f"Cannot write the root {what} of {asset_cfg.name!r}: its base is fixed to the world.")
    return data


def _bounds(ranges: dict[str, _Range], what: str) -> tuple[wp.spatial_vector, wp.spatial_vector]:
    low, high = bounds(ranges, _SIX, what)
    return wp.spatial_vector(*low), wp.spatial_vector(*high)
