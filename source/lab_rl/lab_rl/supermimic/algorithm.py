"""SuperMimic as one of the algorithms that the commands know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from lab_core.agents import SuperMimicCfg
from lab_core.envs import RLEnv
from lab_rl.algorithms import Algorithm, Panel, Policy, Runner
from lab_rl.supermimic.policy import SuperMimicPolicy, restored_actor
from lab_rl.supermimic.runner import SuperMimicRunner
from lab_rl.supermimic.settings import check_supermimic_cfg


class SuperMimicAlgorithm(Algorithm[SuperMimicCfg]):
    """Motion tracking by back-propagation through a learned world model."""

    title = "SuperMimic"
    cfg_type = SuperMimicCfg
    only_at_start = (
        "actor_hidden_dims",
        "critic_hidden_dims",
        "obs_groups",
        "optimizer",
        "exploration",
        "world_model.hidden_dims",
        "world_model.context",
        "world_model.holdout_share",
    )
    panels = (
        Panel("Reward of a step without noise", ("Train/deterministic_step_reward",)),
        Panel("World model", ("WorldModel/loss", "WorldModel/held_out_one_step")),
        Panel("Imagined return", ("Imagined/return",)),
    )

    def check(self, cfg: SuperMimicCfg) -> None:
        check_supermimic_cfg(cfg)

    def make_runner(self, env: RLEnv, cfg: SuperMimicCfg) -> Runner:
        return SuperMimicRunner(env, cfg)

    def load_policy(self, env: RLEnv, cfg: SuperMimicCfg, state: Mapping[str, Any]) -> Policy:
        with torch.inference_mode():
            env.reset()
        actor = restored_actor(cfg, state["policy"]["averaged"], env.device)
        return SuperMimicPolicy(env, actor, cfg.obs_groups["actor"])
