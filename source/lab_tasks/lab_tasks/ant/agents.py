"""Learning settings for the ant."""

from __future__ import annotations

from lab_core.agents import PPOCfg


def ant_ppo_cfg() -> PPOCfg:
    """Returns PPO settings that make the ant run within some hundred iterations."""
    return PPOCfg(
        num_steps_per_env=32,
        max_iterations=1000,
        actor_hidden_dims=(400, 200, 100),
        critic_hidden_dims=(400, 200, 100),
        entropy_coef=0.0,
        learning_rate=5e-4,
    )
