"""Terminations of motion tracking: ``func(env, ...) -> (N,) bool``."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lab_core.config import NonNegative
from lab_core.env import ManagerBasedEnv
from lab_core.managers import SceneEntityCfg, declare
from lab_tasks.tracking.motion_target import key_poses, motion_command

_ROBOT = SceneEntityCfg("robot")


@declare(capturable=True, differentiable=True)
def bad_anchor_height(
    env: ManagerBasedEnv, command_name: str, threshold: NonNegative, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """The height of the anchor is more than ``threshold`` [m] away from the motion's."""
    command = motion_command(env, command_name)
    error = command.target.body_pos - key_poses(env, command.keys, asset_cfg)[0]
    return error[:, command.keys.anchor, 2].abs() > threshold


@declare(capturable=True, differentiable=True)
def bad_anchor_tilt(
    env: ManagerBasedEnv, command_name: str, threshold: NonNegative, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """How far the anchor leans, as the z component of the vertical in its frame, is more than ``threshold`` away from
    the motion's."""
    command = motion_command(env, command_name)
    anchor, quat = command.keys.anchor, key_poses(env, command.keys, asset_cfg)[1]
    return (_uprightness(command.target.body_quat[:, anchor]) - _uprightness(quat[:, anchor])).abs() > threshold


@declare(capturable=True, differentiable=True)
def bad_body_heights(
    env: ManagerBasedEnv,
    command_name: str,
    body_names: Sequence[str],
    threshold: NonNegative,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> torch.Tensor:
    """The height of one of some key bodies is more than ``threshold`` [m] away from the motion's.

    Moving the motion to the robot's anchor would change no height.
    """
    command = motion_command(env, command_name)
    error = (command.target.body_pos - key_poses(env, command.keys, asset_cfg)[0])[..., 2].abs()
    return torch.stack([error[:, body] > threshold for body in command.keys.find(body_names)]).any(dim=0)


def _uprightness(quat: torch.Tensor) -> torch.Tensor:
    """z component (...) of the vertical in the frame of a body (..., 4)."""
    return 1.0 - 2.0 * quat[..., :2].square().sum(dim=-1)
