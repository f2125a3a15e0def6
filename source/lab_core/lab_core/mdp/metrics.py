"""Metrics: ``func(env, ...) -> (N,)``, evaluated after terminations and rewards of a step."""

from __future__ import annotations

import torch

from lab_core.config import Positive
from lab_core.env import ManagerBasedEnv


def survived(env: ManagerBasedEnv) -> torch.Tensor:
    """1 if the episode ran out of time in this step. With ``mode="last"``: the share of episodes that survived."""
    return env.termination_manager.time_outs.float()


def velocity_tracked(
    env: ManagerBasedEnv, command_name: str, max_error_xy: Positive = 0.5, max_error_yaw: Positive = 0.4
) -> torch.Tensor:
    """1 if the episode's mean errors of a velocity command are below [m/s] and [rad/s].

    With ``mode="last"``: the share of episodes that followed their commands.
    """
    errors = env.command_manager.get_term(command_name).metrics
    return ((errors["error_vel_xy"] < max_error_xy) & (errors["error_vel_yaw"] < max_error_yaw)).float()
