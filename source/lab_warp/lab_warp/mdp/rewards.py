"""Twins of :mod:`lab_core.mdp.rewards` without contacts; there is said what they return."""

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_core.mdp import SceneSensorCfg, sensor_data
from lab_core.sensors import RayCasterData
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.launches import per_env
from lab_warp.mdp import rewards_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

_ROBOT = SceneEntityCfg("robot")

# Episode ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.is_alive)
def is_alive(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    per_env(env, kernels.where, out, env.termination_manager.warp.terminated, 0.0, 1.0)


@twin_of(mdp.is_terminated)
def is_terminated(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    per_env(env, kernels.where, out, env.termination_manager.warp.terminated, 1.0, 0.0)


@twin_of(mdp.terminated_penalty)
def terminated_penalty(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    per_env(env, kernels.where, out, env.termination_manager.warp.terminated, 1.0 / env.step_dt, 0.0)


# Joints -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.joint_torques_l2)
def joint_torques_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.sum_squares, out, env.scene[asset_cfg.name].data.warp.applied_effort, joint_index(asset_cfg))


@twin_of(mdp.joint_vel_l1)
def joint_vel_l1(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.sum_magnitudes, out, env.scene[asset_cfg.name].data.warp.joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_vel_l2)
def joint_vel_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.sum_squares, out, env.scene[asset_cfg.name].data.warp.joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_acc_l2)
def joint_acc_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.sum_squares, out, env.scene[asset_cfg.name].data.warp.joint_acc, joint_index(asset_cfg))


@twin_of(mdp.joint_deviation_l1)
def joint_deviation_l1(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    per_env(env, kernels.sum_distances, out, data.joint_pos, data.default_joint_pos, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_limits)
def joint_pos_limits(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    per_env(env, kernels.sum_excesses, out, data.joint_pos, data.soft_joint_pos_limits, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_target_l2)
def joint_pos_target_l2(env: WarpEnv, out: wp.array, target: float, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    position = env.scene[asset_cfg.name].data.warp.joint_pos
    per_env(env, kernels.sum_squared_angles, out, position, target, joint_index(asset_cfg))


# Actions ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.action_rate_l2)
def action_rate_l2(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    actions = env.action_manager.warp
    per_env(env, kernels.action_rate_squared, out, actions.action, actions.prev_action)


@twin_of(mdp.action_l2)
def action_l2(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    per_env(env, kernels.action_squared, out, env.action_manager.warp.action)


# Root -------------------------------------------------------------------------------------------------------------


@twin_of(mdp.lin_vel_z_l2)
def lin_vel_z_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.squared_z, out, env.scene[asset_cfg.name].data.warp.root_com_lin_vel_b)


@twin_of(mdp.ang_vel_xy_l2)
def ang_vel_xy_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.squared_xy, out, env.scene[asset_cfg.name].data.warp.root_ang_vel_b)


@twin_of(mdp.flat_orientation_l2)
def flat_orientation_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.squared_xy, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b)


@twin_of(mdp.base_height_l2)
def base_height_l2(
    env: WarpEnv,
    out: wp.array,
    target_height: float,
    asset_cfg: SceneEntityCfg = _ROBOT,
    sensor_cfg: SceneSensorCfg | None = None,
) -> None:
    hits = None if sensor_cfg is None else sensor_data(env, sensor_cfg, RayCasterData).warp.ray_hits_w
    pose = env.scene[asset_cfg.name].data.warp.root_link_pose_w
    per_env(env, kernels.height_error, out, pose, env.warp.env_origins, hits, target_height)


# Commands ---------------------------------------------------------------------------------------------------------


@twin_of(mdp.track_lin_vel_xy_exp)
def track_lin_vel_xy_exp(
    env: ManagerBasedWarpEnv, out: wp.array, std: float, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    command = env.command_manager.get_term(command_name).warp.command
    per_env(env, kernels.track_xy, out, command, env.scene[asset_cfg.name].data.warp.root_com_lin_vel_b, std**2)


@twin_of(mdp.track_ang_vel_z_exp)
def track_ang_vel_z_exp(
    env: ManagerBasedWarpEnv, out: wp.array, std: float, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    command = env.command_manager.get_term(command_name).warp.command
    per_env(env, kernels.track_z, out, command, env.scene[asset_cfg.name].data.warp.root_ang_vel_b, std**2)
