"""The averaged policy, for playing and export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lab_core.agents import SuperMimicCfg
from lab_core.envs import RLEnv
from lab_rl.algorithms import Policy
from lab_rl.supermimic.networks import Actor


class SuperMimicPolicy(Policy):
    """Acts without noise.

    Args:
        env: The environment.
        actor: The network.
        groups: Observation groups that it reads.
    """

    def __init__(self, env: RLEnv, actor: Actor, groups: Sequence[str]) -> None:
        self.env, self.actor, self.groups = env, actor, tuple(groups)

    @torch.no_grad()
    def act(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return self.actor(torch.cat([observations[group] for group in self.groups], dim=-1))

    def exported(self) -> torch.nn.Module:
        return self.actor


def restored_actor(cfg: SuperMimicCfg, state: Mapping[str, Any], device: torch.device) -> Actor:
    """Returns the network whose ``state_dict`` is ``state``, without gradients.

    Raises:
        RuntimeError: it is of other hidden layers than ``cfg`` says.
    """
    width, actions = len(state["normalizer.mean"]), len(state["network.last.bias"])
    actor = Actor(width, actions, cfg.actor_hidden_dims, cfg.action_limit)
    actor.load_state_dict(dict(state))
    return actor.to(device).requires_grad_(False).eval()
