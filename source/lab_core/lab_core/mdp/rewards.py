"""Rewards: ``func(env, ...) -> (N,)``. The manager multiplies by the weight and the step's duration.

Terms named ``..._l1`` and ``..._l2`` are costs, sums of absolute values and of squares: give them a negative weight.
"""

from __future__ import annotations

import torch

from lab_core.config import NonNegative, Positive
from lab_core.env import Env, ManagerBasedEnv
from lab_core.managers import SceneEntityCfg, declare
from lab_core.math import wrap_to_pi
from lab_core.mdp.scene_sensor_cfg import SceneSensorCfg, peak_contact_force, recently_touched, sensor_data
from lab_core.sensors import ContactTimesData, RayCasterData

_ROBOT = SceneEntityCfg("robot")

# Episode ----------------------------------------------------------------------------------------------------------


@declare(differentiable=True)
def is_alive(env: ManagerBasedEnv) -> torch.Tensor:
    """1 unless the episode was terminated in this step; running out of time does not count."""
    return (~env.termination_manager.terminated).float()


@declare(differentiable=True)
def is_terminated(env: ManagerBasedEnv) -> torch.Tensor:
    """1 if the episode was terminated in this step; running out of time does not count."""
    return env.termination_manager.terminated.float()


@declare(differentiable=True)
def terminated_penalty(env: ManagerBasedEnv) -> torch.Tensor:
    """:func:`is_terminated` per second, so that the weight is what one termination costs [1/s]."""
    return env.termination_manager.terminated.float() / env.step_dt


# Joints -----------------------------------------------------------------------------------------------------------


def joint_torques_l2(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Of the efforts that the solver received in the last substep, after clipping [N^2 m^2 or N^2]."""
    return env.scene[asset_cfg.name].data.applied_effort[:, asset_cfg.joint_ids].square().sum(dim=1)


@declare(differentiable=True)
def joint_vel_l1(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """[rad/s or m/s]."""
    return env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids].abs().sum(dim=1)


@declare(differentiable=True)
def joint_vel_l2(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """[rad^2/s^2 or m^2/s^2]."""
    return env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids].square().sum(dim=1)


@declare(differentiable=True)
def joint_acc_l2(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """[rad^2/s^4 or m^2/s^4]."""
    return env.scene[asset_cfg.name].data.joint_acc[:, asset_cfg.joint_ids].square().sum(dim=1)


@declare(differentiable=True)
def joint_deviation_l1(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Distance from the default joint positions [rad or m]."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    return (data.joint_pos[:, ids] - data.default_joint_pos[:, ids]).abs().sum(dim=1)


@declare(differentiable=True)
def joint_pos_limits(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """How far joints are beyond their soft limits, summed [rad or m]."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    position = data.joint_pos[:, ids]
    low, high = data.soft_joint_pos_limits[:, ids].unbind(dim=-1)
    return ((low - position).clamp(min=0.0) + (position - high).clamp(min=0.0)).sum(dim=1)


@declare(differentiable=True)
def joint_pos_target_l2(env: Env, target: float, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Of the joint angles, wrapped to (-pi, pi], minus ``target`` [rad^2]."""
    angle = wrap_to_pi(env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids])
    return (angle - target).square().sum(dim=1)


# Actions ----------------------------------------------------------------------------------------------------------


@declare(differentiable=True)
def action_rate_l2(env: ManagerBasedEnv) -> torch.Tensor:
    """Of the change since the last action, which is zero at the beginning of an episode."""
    return (env.action_manager.action - env.action_manager.prev_action).square().sum(dim=1)


@declare(differentiable=True)
def action_l2(env: ManagerBasedEnv) -> torch.Tensor:
    """Of the action as the policy gave it."""
    return env.action_manager.action.square().sum(dim=1)


# Root -------------------------------------------------------------------------------------------------------------


@declare(differentiable=True)
def lin_vel_z_l2(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Velocity of the root's centre of mass along the root-link z axis [m^2/s^2]."""
    return env.scene[asset_cfg.name].data.root_com_lin_vel_b[:, 2].square()


@declare(differentiable=True)
def ang_vel_xy_l2(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Roll and pitch rate in the root-link frame [rad^2/s^2]."""
    return env.scene[asset_cfg.name].data.root_ang_vel_b[:, :2].square().sum(dim=1)


@declare(differentiable=True)
def flat_orientation_l2(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Horizontal part of the unit vector of gravity in the root-link frame; 0 when level."""
    return env.scene[asset_cfg.name].data.projected_gravity_b[:, :2].square().sum(dim=1)


@declare(differentiable=True)
def base_height_l2(
    env: Env,
    target_height: float,
    asset_cfg: SceneEntityCfg = _ROBOT,
    sensor_cfg: SceneSensorCfg | None = None,
) -> torch.Tensor:
    """Of the root's height above the ground minus ``target_height`` [m^2].

    The ground is at the mean height of the hits of a ray caster; without one, at the height of the environment's
    origin. 0 where all rays miss: of a robot beyond the edge of the terrain no height is known.
    """
    height = env.scene[asset_cfg.name].data.root_link_pose_w[:, 2]
    if sensor_cfg is None:
        return (height - env.scene.env_origins[:, 2] - target_height).square()
    hits = sensor_data(env, sensor_cfg, RayCasterData).ray_hits_w[..., 2]
    is_hit = hits.isfinite()
    count = is_hit.sum(dim=1)
    ground = torch.where(is_hit, hits, 0.0).sum(dim=1) / count.clamp(min=1)
    return torch.where(count > 0, (height - ground - target_height).square(), 0.0)


# Contacts ---------------------------------------------------------------------------------------------------------


def feet_air_time(
    env: ManagerBasedEnv, command_name: str, sensor_cfg: SceneSensorCfg, threshold: NonNegative
) -> torch.Tensor:
    """sum over feet that landed in this step of (flight time - ``threshold``) [s].

    Flights shorter than the threshold cost. Nothing where the command is to stand, |v*_xy| <= 0.1 m/s. The sensor is
    one of contact forces or of gaps.
    """
    data, ids = sensor_data(env, sensor_cfg, ContactTimesData), sensor_cfg.body_ids
    landed = data.compute_first_contact(env.step_dt)[:, ids]
    reward = ((data.last_air_time[:, ids] - threshold) * landed).sum(dim=1)
    return reward * (env.command_manager.get_command(command_name)[:, :2].norm(dim=1) > 0.1)


def feet_slide(env: Env, sensor_cfg: SceneSensorCfg, asset_cfg: SceneEntityCfg) -> torch.Tensor:
    """Horizontal speed of the feet that carry more than 1 N at some time in the sensor's history, summed [m/s].

    ``asset_cfg`` must select the same bodies as ``sensor_cfg``.
    """
    in_contact = peak_contact_force(env, sensor_cfg) > 1.0
    velocity = env.scene[asset_cfg.name].data.body_com_vel_w[:, asset_cfg.body_ids, :2]
    return (velocity.norm(dim=-1) * in_contact).sum(dim=1)


def undesired_contacts(env: Env, threshold: NonNegative, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Number of bodies that were touched with more than ``threshold`` [N] at some time in the sensor's history."""
    return (peak_contact_force(env, sensor_cfg) > threshold).float().sum(dim=1)


def undesired_touches(env: Env, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Number of bodies that touched something at some time in the history of a gap sensor; see
    :func:`undesired_contacts`."""
    return recently_touched(env, sensor_cfg).float().sum(dim=1)


def contact_forces(env: Env, threshold: NonNegative, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """Contact force beyond ``threshold``, the largest in the sensor's history of each body, summed over bodies [N]."""
    return (peak_contact_force(env, sensor_cfg) - threshold).clamp(min=0.0).sum(dim=1)


# Commands ---------------------------------------------------------------------------------------------------------


@declare(differentiable=True)
def track_lin_vel_xy_exp(
    env: ManagerBasedEnv, std: Positive, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """exp(-|v* - v|^2 / std^2) of the horizontal velocity in the root-link frame; ``std`` [m/s]."""
    velocity = env.scene[asset_cfg.name].data.root_com_lin_vel_b[:, :2]
    error = (env.command_manager.get_command(command_name)[:, :2] - velocity).square().sum(dim=1)
    return torch.exp(-error / std**2)


@declare(differentiable=True)
def track_ang_vel_z_exp(
    env: ManagerBasedEnv, std: Positive, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """exp(-(w* - w)^2 / std^2) of the yaw rate in the root-link frame; ``std`` [rad/s]."""
    rate = env.scene[asset_cfg.name].data.root_ang_vel_b[:, 2]
    error = (env.command_manager.get_command(command_name)[:, 2] - rate).square()
    return torch.exp(-error / std**2)
