"""PPO as one of the algorithms that the commands know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab_core.agents import PPOCfg
from lab_core.envs import RLEnv
from lab_rl.algorithms.base import Algorithm, Panel, Policy, Runner
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.policy import PPOPolicy, build_actor
from lab_rl.algorithms.ppo.runner import PPORunner
from lab_rl.algorithms.ppo.settings import rsl_rl_cfg


class PPOAlgorithm(Algorithm[PPOCfg]):
    """Proximal policy optimisation, as rsl-rl computes it."""

    title = "PPO"
    cfg_type = PPOCfg
    many_processes = True
    panels = (
        Panel("Losses", ("Loss/value", "Loss/surrogate")),
        Panel("Entropy", ("Loss/entropy",)),
        Panel("Learning rate", ("Loss/learning_rate",)),
    )
    only_at_start = (
        "actor_hidden_dims",
        "critic_hidden_dims",
        "activation",
        "obs_groups",
        "obs_normalization",
        "init_std",
        "recurrent",
        "curiosity",
    )

    def check(self, cfg: PPOCfg) -> None:
        rsl_rl_cfg(cfg)

    def make_runner(self, env: RLEnv, cfg: PPOCfg) -> Runner:
        return PPORunner(env, cfg)

    def load_policy(self, env: RLEnv, cfg: PPOCfg, state: Mapping[str, Any]) -> Policy:
        adapter = RslRlEnv(env, cfg.obs_groups["actor"], cfg.clip_actions)
        return PPOPolicy(adapter, build_actor(adapter, cfg, state["algorithm"]["actor_state_dict"]))
