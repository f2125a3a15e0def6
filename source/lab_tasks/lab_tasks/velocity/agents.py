"""Learning settings for velocity tracking."""

from __future__ import annotations

from lab_core.agents import PPOCfg


def go2_flat_ppo_cfg() -> PPOCfg:
    """Returns PPO settings for the Go2 on flat ground."""
    return _flat(entropy_coef=0.01)


def go2_rough_ppo_cfg() -> PPOCfg:
    """Returns PPO settings for the Go2 on rough ground."""
    return _rough(entropy_coef=0.01)


def anymal_c_flat_ppo_cfg() -> PPOCfg:
    """Returns PPO settings for the ANYmal C on flat ground."""
    return _flat(entropy_coef=0.005)


def anymal_c_rough_ppo_cfg() -> PPOCfg:
    """Returns PPO settings for the ANYmal C on rough ground."""
    return _rough(entropy_coef=0.005)


def _flat(entropy_coef: float) -> PPOCfg:
    hidden = (128, 128, 128)
    return PPOCfg(max_iterations=300, actor_hidden_dims=hidden, critic_hidden_dims=hidden, entropy_coef=entropy_coef)


def _rough(entropy_coef: float) -> PPOCfg:
    hidden = (512, 256, 128)
    return PPOCfg(max_iterations=1500, actor_hidden_dims=hidden, critic_hidden_dims=hidden, entropy_coef=entropy_coef)
