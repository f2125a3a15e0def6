"""Learning settings for motion tracking."""

from __future__ import annotations

from lab_core.agents import PPOCfg, SuperMimicCfg, WorldModelCfg


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


def g1_supermimic_cfg() -> SuperMimicCfg:
    """Returns settings of SuperMimic for the G1: the rewards of tracking, 0.1 per step at best, are scaled to 1.

    The world model knows what is randomised and stays: centres of mass and friction.
    """
    return SuperMimicCfg(
        obs_groups={"actor": ("policy",), "critic": ("critic",)},
        predicted_rewards=("self_collision",),
        reward_scale=10.0,
        world_model=WorldModelCfg(context={"body_com_pos_b": 0.05, "body_friction": 0.3}),
    )
