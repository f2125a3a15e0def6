"""Observations of motion tracking: ``func(env, ...) -> (N, D)``."""

from __future__ import annotations

import torch

from lab_core.env import Env, ManagerBasedEnv
from lab_core.managers import SceneEntityCfg, declare
from lab_core.math import matrix_from_quat, quat_apply_inverse, quat_conjugate, quat_mul
from lab_tasks.tracking.motion_target import anchor_pose, key_poses, motion_command

_ROBOT = SceneEntityCfg("robot")


@declare(capturable=True, differentiable=True)
def motion_anchor_pos_b(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Position of the motion's anchor in the frame of the robot's (N, 3) [m]."""
    command = motion_command(env, command_name)
    pos, quat = anchor_pose(env, command.keys, asset_cfg)
    return quat_apply_inverse(quat, command.target.body_pos[:, command.keys.anchor] - pos)


@declare(capturable=True, differentiable=True)
def motion_anchor_ori_b(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Orientation of the motion's anchor in the frame of the robot's (N, 6): the first two columns of its matrix, row
    by row."""
    command = motion_command(env, command_name)
    _, quat = anchor_pose(env, command.keys, asset_cfg)
    return _two_columns(quat_mul(quat_conjugate(quat), command.target.body_quat[:, command.keys.anchor]))


@declare(capturable=True, differentiable=True)
def robot_body_pos_b(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Positions of the robot's key bodies in the frame of its anchor (N, 3 B) [m]."""
    keys = motion_command(env, command_name).keys
    pos, quat = key_poses(env, keys, asset_cfg)
    anchor = slice(keys.anchor, keys.anchor + 1)
    return quat_apply_inverse(quat[:, anchor], pos - pos[:, anchor]).flatten(start_dim=1)


@declare(capturable=True, differentiable=True)
def robot_body_ori_b(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Orientations of the robot's key bodies in the frame of its anchor (N, 6 B), as :func:`motion_anchor_ori_b`."""
    keys = motion_command(env, command_name).keys
    quat = key_poses(env, keys, asset_cfg)[1]
    back = quat_conjugate(quat[:, keys.anchor : keys.anchor + 1]).expand_as(quat)
    return _two_columns(quat_mul(back, quat)).flatten(start_dim=1)


@declare(capturable=True, differentiable=True)
def root_link_lin_vel(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Velocity of the root link's origin in its frame (N, 3) [m/s]."""
    return env.scene[asset_cfg.name].data.root_link_lin_vel_b


def _two_columns(quat: torch.Tensor) -> torch.Tensor:
    return matrix_from_quat(quat)[..., :2].flatten(start_dim=-2)
