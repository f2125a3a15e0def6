"""Learning settings for the cart-pole."""

from __future__ import annotations

from lab_core.agents import PPOCfg


def cartpole_ppo_cfg() -> PPOCfg:
    """Returns PPO settings that balance the pole within 150 iterations."""
    return PPOCfg(
        num_steps_per_env=16,
        max_iterations=150,
        actor_hidden_dims=(32, 32),
        critic_hidden_dims=(32, 32),
        entropy_coef=0.005,
        learning_rate=1e-3,
    )
