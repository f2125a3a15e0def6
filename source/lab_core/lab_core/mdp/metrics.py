"""Metrics: ``func(env, ...) -> (N,)``, evaluated after terminations and rewards of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from lab_core.envs import ManagerBasedRLEnv


def survived(env: ManagerBasedRLEnv) -> torch.Tensor:
    """1 if the episode ran out of time in this step. With ``mode="last"``: the share of episodes that survived."""
    return env.termination_manager.time_outs.float()
