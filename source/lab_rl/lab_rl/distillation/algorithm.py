"""Distillation as one of the algorithms that the commands know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab_core.agents import DistillationCfg
from lab_core.envs import RLEnv
from lab_rl.algorithms import Algorithm, Panel, Policy, Runner
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.policy import PPOPolicy, build_network
from lab_rl.distillation.runner import DistillationRunner
from lab_rl.distillation.settings import check_distillation_cfg, student_cfg


class DistillationAlgorithm(Algorithm[DistillationCfg]):
    """Distillation of a policy into another one, as rsl-rl computes it."""

    title = "distillation"
    cfg_type = DistillationCfg
    many_processes = True
    panels = (Panel("Difference to the teacher", ("Loss/behavior",)),)
    only_at_start = (
        "student_hidden_dims",
        "activation",
        "obs_groups",
        "obs_normalization",
        "init_std",
        "recurrent",
    )

    def check(self, cfg: DistillationCfg) -> None:
        check_distillation_cfg(cfg)

    def make_runner(self, env: RLEnv, cfg: DistillationCfg) -> Runner:
        return DistillationRunner(env, cfg)

    def load_policy(self, env: RLEnv, cfg: DistillationCfg, state: Mapping[str, Any]) -> Policy:
        adapter = RslRlEnv(env, cfg.obs_groups["student"], cfg.clip_actions)
        weights = state["algorithm"]["student_state_dict"]
        return PPOPolicy(adapter, build_network(adapter, adapter.groups, student_cfg(cfg), weights))
