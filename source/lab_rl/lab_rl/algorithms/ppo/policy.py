"""The policy network alone, for playing and export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsl_rl.models import MLPModel

from lab_core.agents import PPOCfg
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.settings import rsl_rl_cfg


def build_policy(env: RslRlEnv, cfg: PPOCfg, actor_state: Mapping[str, Any] | None = None) -> MLPModel:
    """The actor that PPO trains for `env`, in evaluation mode; called with observations it gives the mean action.

    Args:
        env: Gives the sizes.
        cfg: The settings it was trained with.
        actor_state: Its weights and observation statistics. None: fresh ones.
    """
    settings = rsl_rl_cfg(cfg)
    actor = dict(settings["actor"])
    actor.pop("class_name")
    observations = env.get_observations()
    policy = MLPModel(observations, settings["obs_groups"], "actor", env.num_actions, **actor).to(env.device)
    if actor_state is not None:
        policy.load_state_dict(dict(actor_state))
    policy.eval()
    for parameter in policy.parameters():
        parameter.requires_grad_(False)
    return policy
