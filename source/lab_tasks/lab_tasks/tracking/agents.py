"""Learning settings for motion tracking."""

from __future__ import annotations

from lab_core.agents import PPOCfg


def g1_ppo_cfg() -> PPOCfg:
    """Returns the PPO settings of BeyondMimic (arXiv 2508.08241) for the G1."""
    hidden = (512, 256, 128)
    return PPOCfg(
        max_iterations=30_000,
        obs_groups={"actor": ("policy",), "critic": ("critic",)},
        obs_normalization=True,
        actor_hidden_dims=hidden,
        critic_hidden_dims=hidden,
        entropy_coef=0.005,
    )
