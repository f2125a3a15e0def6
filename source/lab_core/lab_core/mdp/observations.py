"""Observations: ``func(env, ...) -> (N, D)``.

Joint terms have one column per selected joint. What they return may be a view of live data; managers copy it.
"""

from __future__ import annotations

import torch

from lab_core.env import Env, ManagerBasedEnv
from lab_core.managers import SceneEntityCfg, declare
from lab_core.mdp.scene_sensor_cfg import SceneSensorCfg, sensor_data
from lab_core.sensors import ImuData, JointWrenchData, RayCasterData

_ROBOT = SceneEntityCfg("robot")


@declare(differentiable=True)
def base_pos_z(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Height of the root link above world zero (N, 1) [m]."""
    return env.scene[asset_cfg.name].data.root_link_pose_w[:, 2:3]


@declare(differentiable=True)
def base_lin_vel(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Velocity of the root's centre of mass in the root-link frame (N, 3) [m/s]."""
    return env.scene[asset_cfg.name].data.root_com_lin_vel_b


@declare(differentiable=True)
def base_ang_vel(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Angular velocity of the root in the root-link frame (N, 3) [rad/s]."""
    return env.scene[asset_cfg.name].data.root_ang_vel_b


@declare(differentiable=True)
def projected_gravity(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Unit vector of gravity in the root-link frame (N, 3)."""
    return env.scene[asset_cfg.name].data.projected_gravity_b


@declare(differentiable=True)
def root_pos_w(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Position of the root link relative to the environment's origin, world axes (N, 3) [m]."""
    return env.scene[asset_cfg.name].data.root_link_pose_w[:, :3] - env.scene.env_origins


@declare(differentiable=True)
def root_quat_w(env: Env, asset_cfg: SceneEntityCfg = _ROBOT, make_quat_unique: bool = False) -> torch.Tensor:
    """Orientation of the root link in the world (N, 4), xyzw.

    ``make_quat_unique``: of the two quaternions of a rotation return the one with w >= 0.
    """
    quat = env.scene[asset_cfg.name].data.root_link_pose_w[:, 3:7]
    return torch.where(quat[:, 3:4] < 0.0, -quat, quat) if make_quat_unique else quat


@declare(differentiable=True)
def root_lin_vel_w(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Velocity of the root's centre of mass in the world frame (N, 3) [m/s]."""
    return env.scene[asset_cfg.name].data.root_com_vel_w[:, :3]


@declare(differentiable=True)
def root_ang_vel_w(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Angular velocity of the root in the world frame (N, 3) [rad/s]."""
    return env.scene[asset_cfg.name].data.root_com_vel_w[:, 3:6]


@declare(differentiable=True)
def body_pos_w(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Positions of the selected bodies' links relative to the environment's origin, world axes, one body after the
    other (N, 3 K) [m]."""
    pose = env.scene[asset_cfg.name].data.body_link_pose_w[:, asset_cfg.body_ids]
    return (pose[..., :3] - env.scene.env_origins[:, None]).flatten(1)


@declare(differentiable=True)
def body_quat_w(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Orientations of the selected bodies' links in the world, xyzw, one body after the other (N, 4 K)."""
    return env.scene[asset_cfg.name].data.body_link_pose_w[:, asset_cfg.body_ids, 3:7].flatten(1)


@declare(differentiable=True)
def body_vel_w(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Velocities of the selected bodies' centres of mass in the world frame, of each body first the linear, then the
    angular one (N, 6 K) [m/s, rad/s]."""
    return env.scene[asset_cfg.name].data.body_com_vel_w[:, asset_cfg.body_ids].flatten(1)


@declare(differentiable=True)
def joint_pos(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Joint positions [rad or m]."""
    return env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids]


@declare(differentiable=True)
def joint_pos_rel(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Joint positions minus their defaults [rad or m]."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return data.joint_pos[:, ids] - data.default_joint_pos[:, ids]


@declare(differentiable=True)
def joint_pos_limit_normalized(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Joint positions, -1 at the lower and 1 at the upper soft limit. Every joint must have limits."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    low, high = data.soft_joint_pos_limits[:, ids].unbind(dim=-1)
    return torch.sub(low + high, data.joint_pos[:, ids], alpha=2.0) / (low - high)


@declare(differentiable=True)
def joint_vel(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Joint velocities [rad/s or m/s]."""
    return env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids]


@declare(differentiable=True)
def joint_vel_rel(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Joint velocities minus their defaults [rad/s or m/s]."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return data.joint_vel[:, ids] - data.default_joint_vel[:, ids]


def joint_effort(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Efforts that the solver received in the last substep, after clipping [N m or N]."""
    return env.scene[asset_cfg.name].data.applied_effort[:, asset_cfg.joint_ids]


def height_scan(env: Env, sensor_cfg: SceneSensorCfg, offset: float = 0.5) -> torch.Tensor:
    """Height of the sensor's body above the ground under each ray, minus ``offset`` (N, R) [m].

    A ray that misses looks into a hole without a bottom: +inf. Give the term a clip.
    """
    data = sensor_data(env, sensor_cfg, RayCasterData)
    height = data.ray_hits_w[..., 2]
    return data.pos_w[:, 2:3] - torch.where(height.isinf(), -torch.inf, height) - offset


def body_incoming_wrench(env: Env, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Force [N], then torque [N m] that each body receives through its joint, in the body's frame (N, 6 B)."""
    return sensor_data(env, sensor_cfg, JointWrenchData).wrench_b[:, sensor_cfg.body_ids].flatten(start_dim=1)


def imu_ang_vel(env: Env, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Angular velocity in the frame of the inertial sensor (N, 3) [rad/s]."""
    return sensor_data(env, sensor_cfg, ImuData).ang_vel_b


def imu_lin_acc(env: Env, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Specific force in the frame of the inertial sensor, upwards at rest (N, 3) [m/s^2]."""
    return sensor_data(env, sensor_cfg, ImuData).lin_acc_b


@declare(differentiable=True)
def last_action(env: ManagerBasedEnv, action_name: str | None = None) -> torch.Tensor:
    """The policy's latest action, unscaled and unclipped: (N, A), or the columns of one action term."""
    if action_name is None:
        return env.action_manager.action
    return env.action_manager.get_term(action_name).raw_actions


@declare(differentiable=True)
def generated_commands(env: ManagerBasedEnv, command_name: str) -> torch.Tensor:
    """The command of a command term (N, D)."""
    return env.command_manager.get_command(command_name)


@declare(differentiable=True)
def current_time_s(env: Env) -> torch.Tensor:
    """Time since the episode began (N, 1) [s]."""
    return env.episode_length_buf.unsqueeze(1) * env.step_dt


@declare(differentiable=True)
def remaining_time_s(env: Env) -> torch.Tensor:
    """Time until the episode is cut off (N, 1) [s]."""
    return env.max_episode_length_s - current_time_s(env)
