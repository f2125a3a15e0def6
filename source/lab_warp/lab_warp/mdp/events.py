"""Twins of :mod:`lab_core.mdp.events`, which says what they do.

Only environments of the mask draw, each from its own stream: the position and then the velocity of one joint after the
other; x, y, z, roll, pitch and yaw of a pose, then of a velocity. A range without width draws too. An orientation that
may be any is drawn after the pose.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from lab_core import mdp
from lab_core.errors import LabError
from lab_core.managers import SceneEntityCfg, check_range
from lab_core.scene import ArticulationData
from lab_warp.env import WarpEnv
from lab_warp.mdp import events_kernels as kernels
from lab_warp.mdp.draws import bounds
from lab_warp.scene import write_default_state
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

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
        kernels.draw_joint_state,
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


@twin_of(mdp.reset_joints_within_limits)
def reset_joints_within_limits(
    env: WarpEnv,
    mask: wp.array,
    fraction: float = 0.2,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    data = env.scene[asset_cfg.name].data.warp
    wp.launch(
        kernels.draw_joints_within_limits,
        dim=env.num_envs,
        inputs=[mask, joint_index(asset_cfg), data.default_joint_pos, data.soft_joint_pos_limits, fraction],
        outputs=[env.warp.rng, data.joint_pos, data.joint_vel, env.warp.written],
        device=env.wp_device,
    )


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
        kernels.draw_root_state,
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


@twin_of(mdp.reset_root_state_with_random_orientation)
def reset_root_state_with_random_orientation(
    env: WarpEnv,
    mask: wp.array,
    pose_range: dict[str, _Range],
    velocity_range: dict[str, _Range],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    mdp.require_no_angles(pose_range)
    data = _floating_base(env, asset_cfg, "pose").warp
    wp.launch(
        kernels.draw_root_state_with_random_orientation,
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


@twin_of(mdp.reset_root_above_ground)
class reset_root_above_ground(mdp.reset_root_above_ground):
    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        env: WarpEnv,
        mask: wp.array,
        pose_range: dict[str, _Range],
        velocity_range: dict[str, _Range],
        reach: float,
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> None:
        data = _floating_base(env, asset_cfg, "pose").warp
        wp.launch(
            kernels.draw_root_state_above_ground,
            dim=env.num_envs,
            inputs=[
                mask,
                env.warp.env_origins,
                data.default_root_pose,
                data.default_root_vel,
                *_bounds(pose_range, "pose_range"),
                *_bounds(velocity_range, "velocity_range"),
                wp.from_torch(self.highest),
                self.spacing,
            ],
            outputs=[env.warp.rng, data.root_link_pose_w, data.root_com_vel_w, env.warp.written],
            device=env.wp_device,
        )


@twin_of(mdp.push_by_setting_velocity)
def push_by_setting_velocity(
    env: WarpEnv,
    mask: wp.array,
    velocity_range: dict[str, _Range],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    data = _floating_base(env, asset_cfg, "velocity").warp
    wp.launch(
        kernels.push,
        dim=env.num_envs,
        inputs=[mask, *_bounds(velocity_range, "velocity_range")],
        outputs=[env.warp.rng, data.root_com_vel_w, env.warp.written],
        device=env.wp_device,
    )


def _floating_base(env: WarpEnv, asset_cfg: SceneEntityCfg, what: str) -> ArticulationData:
    data = env.scene[asset_cfg.name].data
    if data.fixed_base:
        raise LabError(f"Cannot write the root {what} of {asset_cfg.name!r}: its base is fixed to the world.")
    return data


def _bounds(ranges: dict[str, _Range], what: str) -> tuple[Any, Any]:
    low, high = bounds(ranges, _SIX, what)
    return wp.spatial_vector(*low), wp.spatial_vector(*high)
