"""Twins of :mod:`lab_tasks.ant.mdp`, which says what they return."""

from __future__ import annotations

import torch
import warp as wp

from lab_core.managers import ManagerTermBase, RewardTermCfg, SceneEntityCfg
from lab_tasks.ant import mdp
from lab_tasks.ant import mdp_kernels as kernels
from lab_tasks.ant.mdp import Target
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.launches import per_env
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

_ROBOT = SceneEntityCfg("robot")

# Observations -----------------------------------------------------------------------------------------------------


@twin_of(mdp.base_yaw_roll)
def base_yaw_roll(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.yaw_roll, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w)


@twin_of(mdp.base_angle_to_target)
def base_angle_to_target(env: WarpEnv, out: wp.array, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    per_env(env, kernels.angle_to_target, out, *_course(env, target_pos, asset_cfg), data.heading_w)


@twin_of(mdp.base_up_proj)
def base_up_proj(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.up_proj, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b)


@twin_of(mdp.base_heading_proj)
def base_heading_proj(env: WarpEnv, out: wp.array, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.heading_proj, out, *_course(env, target_pos, asset_cfg))


# Rewards ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.progress_reward)
class progress_reward(ManagerTermBase):
    _env: WarpEnv

    def __init__(self, cfg: RewardTermCfg, env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._position = torch.zeros(env.num_envs, 2, device=env.device)
        self._position_wp = wp.from_torch(self._position, dtype=wp.vec2)

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pose = self._env.scene[self.cfg.params["asset_cfg"].name].data.warp.root_link_pose_w
        per_env(self._env, kernels.remember, self._position_wp, mask, pose)

    def __call__(self, env: WarpEnv, out: wp.array, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
        course = _course(env, target_pos, asset_cfg)
        non_finite = wp.from_torch(env.physics.non_finite)
        per_env(env, kernels.progress, out, *course, non_finite, env.step_dt, self._position_wp)


@twin_of(mdp.upright_posture_bonus)
def upright_posture_bonus(env: WarpEnv, out: wp.array, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.upright, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b, threshold)


@twin_of(mdp.move_to_target_bonus)
def move_to_target_bonus(
    env: WarpEnv, out: wp.array, threshold: float, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    per_env(env, kernels.reward_move_to_target, out, *_course(env, target_pos, asset_cfg), threshold)


@twin_of(mdp.power_consumption)
def power_consumption(env: ManagerBasedWarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    velocity = env.scene[asset_cfg.name].data.warp.joint_vel
    per_env(env, kernels.power, out, env.action_manager.warp.action, velocity, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_limits_penalty_ratio)
def joint_pos_limits_penalty_ratio(
    env: WarpEnv, out: wp.array, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    data, ids = env.scene[asset_cfg.name].data.warp, joint_index(asset_cfg)
    per_env(env, kernels.near_limits, out, data.joint_pos, data.soft_joint_pos_limits, ids, threshold, 1.0 - threshold)


def _course(env: WarpEnv, target_pos: Target, asset_cfg: SceneEntityCfg) -> tuple[wp.array, wp.array, wp.vec2]:
    """Returns what :func:`vector_to_target` takes."""
    target = wp.vec2(target_pos[0], target_pos[1])
    return env.scene[asset_cfg.name].data.warp.root_link_pose_w, env.warp.env_origins, target
