"""Curriculum: ``func(env, mask, ...)``, called in every step before the environments of ``mask`` are reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from lab_core.envs import ManagerBasedRLEnv


def modify_reward_weight(
    env: ManagerBasedRLEnv, mask: torch.Tensor, term_name: str, weight: float, num_steps: int
) -> float:
    """Sets the weight of a reward term from environment step ``num_steps`` on, and returns the weight in use."""
    if env.common_step_counter >= num_steps:
        env.reward_manager.weights = {term_name: weight}
    return env.reward_manager.get_term_cfg(term_name).weight
