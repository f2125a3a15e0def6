"""Rewards of motion tracking: ``func(env, ...) -> (N,)``, 1 at best.

Each is exp(-error / std^2) of a squared error, the mean over bodies where there are several (BeyondMimic, arXiv
2508.08241). The end of a step is compared with the frame that the policy was shown in it.
"""

from __future__ import annotations

import torch

from lab_core.config import NonNegative, Positive
from lab_core.env import Env, ManagerBasedEnv
from lab_core.managers import SceneEntityCfg, TermError, declare
from lab_core.math import quat_angle_squared
from lab_core.mdp import SceneSensorCfg, sensor_data
from lab_core.sensors import ContactSensorData
from lab_tasks.tracking.motion_target import key_poses, key_velocities, motion_command
from lab_tasks.tracking.relative import relative_targets

_ROBOT = SceneEntityCfg("robot")


@declare(capturable=True, differentiable=True)
def anchor_pos_exp(
    env: ManagerBasedEnv, command_name: str, std: Positive, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """Position of the anchor in the world; ``std`` [m]."""
    command = motion_command(env, command_name)
    error = command.target.body_pos - key_poses(env, command.keys, asset_cfg)[0]
    return torch.exp(-error[:, command.keys.anchor].square().sum(dim=1) / std**2)


@declare(capturable=True, differentiable=True)
def anchor_ori_exp(
    env: ManagerBasedEnv, command_name: str, std: Positive, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """Orientation of the anchor in the world; ``std`` [rad]."""
    command = motion_command(env, command_name)
    anchor, quat = command.keys.anchor, key_poses(env, command.keys, asset_cfg)[1]
    return torch.exp(-quat_angle_squared(command.target.body_quat[:, anchor], quat[:, anchor]) / std**2)


@declare(capturable=True, differentiable=True)
def body_pos_exp(
    env: ManagerBasedEnv, command_name: str, std: Positive, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """Positions of the key bodies, the motion moved to the robot's anchor; ``std`` [m]."""
    command = motion_command(env, command_name)
    anchor, (pos, quat) = command.keys.anchor, key_poses(env, command.keys, asset_cfg)
    wanted, _ = relative_targets(command.target, anchor, pos[:, anchor], quat[:, anchor])
    return torch.exp(-(wanted - pos).square().sum(dim=-1).mean(dim=1) / std**2)


@declare(capturable=True, differentiable=True)
def body_ori_exp(
    env: ManagerBasedEnv, command_name: str, std: Positive, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """Orientations of the key bodies, the motion moved to the robot's anchor; ``std`` [rad]."""
    command = motion_command(env, command_name)
    anchor, (pos, quat) = command.keys.anchor, key_poses(env, command.keys, asset_cfg)
    _, wanted = relative_targets(command.target, anchor, pos[:, anchor], quat[:, anchor])
    return torch.exp(-quat_angle_squared(wanted, quat).mean(dim=1) / std**2)


@declare(capturable=True, differentiable=True)
def body_lin_vel_exp(
    env: ManagerBasedEnv, command_name: str, std: Positive, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """Velocities of the key bodies in the world; ``std`` [m/s]."""
    command = motion_command(env, command_name)
    error = command.target.body_lin_vel - key_velocities(env, command.keys, asset_cfg)[0]
    return torch.exp(-error.square().sum(dim=-1).mean(dim=1) / std**2)


@declare(capturable=True, differentiable=True)
def body_ang_vel_exp(
    env: ManagerBasedEnv, command_name: str, std: Positive, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """Angular velocities of the key bodies in the world; ``std`` [rad/s]."""
    command = motion_command(env, command_name)
    error = command.target.body_ang_vel - key_velocities(env, command.keys, asset_cfg)[1]
    return torch.exp(-error.square().sum(dim=-1).mean(dim=1) / std**2)


@declare(capturable=True)
def self_collision(env: Env, sensor_cfg: SceneSensorCfg, threshold: NonNegative) -> torch.Tensor:
    """In which share of the physics steps of the sensor's history bodies of the robot push each other with more than
    ``threshold`` [N], a cost.

    The first of the sensor's ``filter_entities`` is the robot itself. A model that predicts touches takes its place in
    imagination.
    """
    forces = touches_of_itself(env, sensor_cfg).force_matrix_w_history
    assert forces is not None
    return (forces[:, :, :, 0].square().sum(dim=-1) > threshold**2).any(dim=2).float().mean(dim=1)


def touches_of_itself(env: Env, sensor_cfg: SceneSensorCfg) -> ContactSensorData:
    """Returns the data of a contact sensor whose first party is the robot itself.

    Raises:
        TermError: it has no parties.
    """
    data = sensor_data(env, sensor_cfg, ContactSensorData)
    if data.force_matrix_w_history is None:
        raise TermError(f"Sensor {sensor_cfg.name!r} needs filter_entities with the robot itself.")
    return data
