"""Twins of :mod:`lab_core.mdp.observations`, which says what they return."""

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_core.mdp import SceneSensorCfg, sensor_data
from lab_core.sensors import ImuData, JointWrenchData, RayCasterData
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.launches import per_element
from lab_warp.mdp import observations_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import body_index, joint_index

_ROBOT = SceneEntityCfg("robot")

# Root -------------------------------------------------------------------------------------------------------------


@twin_of(mdp.base_pos_z)
def base_pos_z(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.pose_columns, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, 2)


@twin_of(mdp.base_lin_vel)
def base_lin_vel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.vector_columns, out, env.scene[asset_cfg.name].data.warp.root_com_lin_vel_b)


@twin_of(mdp.base_ang_vel)
def base_ang_vel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.vector_columns, out, env.scene[asset_cfg.name].data.warp.root_ang_vel_b)


@twin_of(mdp.projected_gravity)
def projected_gravity(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.vector_columns, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b)


@twin_of(mdp.root_pos_w)
def root_pos_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(
        env, kernels.relative_position, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, env.warp.env_origins
    )


@twin_of(mdp.root_quat_w)
def root_quat_w(
    env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT, make_quat_unique: bool = False
) -> None:
    per_element(env, kernels.quaternion, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, make_quat_unique)


@twin_of(mdp.root_lin_vel_w)
def root_lin_vel_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.spatial_columns, out, env.scene[asset_cfg.name].data.warp.root_com_vel_w, 0)


@twin_of(mdp.root_ang_vel_w)
def root_ang_vel_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.spatial_columns, out, env.scene[asset_cfg.name].data.warp.root_com_vel_w, 3)


# Bodies -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.body_pos_w)
def body_pos_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    poses = env.scene[asset_cfg.name].data.warp.body_link_pose_w
    per_element(env, kernels.gather_positions, out, poses, env.warp.env_origins, body_index(asset_cfg))


@twin_of(mdp.body_quat_w)
def body_quat_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    poses = env.scene[asset_cfg.name].data.warp.body_link_pose_w
    per_element(env, kernels.gather_quaternions, out, poses, body_index(asset_cfg))


@twin_of(mdp.body_vel_w)
def body_vel_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    velocities = env.scene[asset_cfg.name].data.warp.body_com_vel_w
    per_element(env, kernels.gather_spatial, out, velocities, body_index(asset_cfg))


# Joints -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.joint_pos)
def joint_pos(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.gather, out, env.scene[asset_cfg.name].data.warp.joint_pos, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_rel)
def joint_pos_rel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    per_element(env, kernels.gather_difference, out, data.joint_pos, data.default_joint_pos, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_limit_normalized)
def joint_pos_limit_normalized(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    per_element(env, kernels.gather_normalized, out, data.joint_pos, data.soft_joint_pos_limits, joint_index(asset_cfg))


@twin_of(mdp.joint_vel)
def joint_vel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.gather, out, env.scene[asset_cfg.name].data.warp.joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_vel_rel)
def joint_vel_rel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    per_element(env, kernels.gather_difference, out, data.joint_vel, data.default_joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_effort)
def joint_effort(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_element(env, kernels.gather, out, env.scene[asset_cfg.name].data.warp.applied_effort, joint_index(asset_cfg))


# Sensors ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.height_scan)
def height_scan(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg, offset: float = 0.5) -> None:
    rays = sensor_data(env, sensor_cfg, RayCasterData).warp
    per_element(env, kernels.height_scan, out, rays.pos_w, rays.ray_hits_w, offset)


@twin_of(mdp.body_incoming_wrench)
def body_incoming_wrench(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    wrenches = sensor_data(env, sensor_cfg, JointWrenchData).warp.wrench_b
    per_element(env, kernels.gather_spatial, out, wrenches, body_index(sensor_cfg))


@twin_of(mdp.imu_ang_vel)
def imu_ang_vel(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    per_element(env, kernels.vector_columns, out, sensor_data(env, sensor_cfg, ImuData).warp.ang_vel_b)


@twin_of(mdp.imu_lin_acc)
def imu_lin_acc(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    per_element(env, kernels.vector_columns, out, sensor_data(env, sensor_cfg, ImuData).warp.lin_acc_b)


# Actions, commands, time ------------------------------------------------------------------------------------------


@twin_of(mdp.last_action)
def last_action(env: ManagerBasedWarpEnv, out: wp.array, action_name: str | None = None) -> None:
    actions = env.action_manager
    action = actions.warp.action if action_name is None else actions.get_term(action_name).warp.raw_actions
    per_element(env, kernels.copy, out, action)


@twin_of(mdp.generated_commands)
def generated_commands(env: ManagerBasedWarpEnv, out: wp.array, command_name: str) -> None:
    per_element(env, kernels.copy, out, env.command_manager.get_term(command_name).warp.command)


@twin_of(mdp.current_time_s)
def current_time_s(env: WarpEnv, out: wp.array) -> None:
    per_element(env, kernels.current_time, out, env.warp.episode_length, env.step_dt)


@twin_of(mdp.remaining_time_s)
def remaining_time_s(env: WarpEnv, out: wp.array) -> None:
    per_element(env, kernels.remaining_time, out, env.warp.episode_length, env.step_dt, env.max_episode_length_s)
