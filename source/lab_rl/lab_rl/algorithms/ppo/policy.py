"""The policy network alone, for playing and export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rsl_rl.models import MLPModel
from tensordict import TensorDict

from lab_core.agents import PPOCfg
from lab_rl.algorithms.base import Policy
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.settings import rsl_rl_cfg


class PPOPolicy(Policy):
    """Acts with the mean of the distribution that the network ``network`` gives.

    Args:
        adapter: The environment.
        network: The actor, in evaluation mode.
        groups: Observation groups that it reads; None: those of ``adapter``.
    """

    def __init__(self, adapter: RslRlEnv, network: MLPModel, groups: Sequence[str] | None = None) -> None:
        self.env = adapter.env
        self.groups = tuple(adapter.groups if groups is None else groups)
        self.clip_actions = adapter.clip_actions
        self.network = network

    def act(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        rows = observations[self.groups[0]].shape[:1]
        return _clipped(self.network(TensorDict({name: observations[name] for name in self.groups}, rows)), self)

    def exported(self) -> torch.nn.Module:
        return _Exported(self)


class _Exported(torch.nn.Module):
    def __init__(self, policy: PPOPolicy) -> None:
        super().__init__()
        self.network = policy.network.as_onnx(verbose=False)
        self.clip_actions = policy.clip_actions

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return _clipped(self.network(obs), self)


def _clipped(actions: torch.Tensor, owner: PPOPolicy | _Exported) -> torch.Tensor:
    limit = owner.clip_actions
    return actions if limit is None else actions.clamp(-limit, limit)


def build_network(env: RslRlEnv, cfg: PPOCfg, actor_state: Mapping[str, Any] | None = None) -> MLPModel:
    """Returns the actor that PPO trains for ``env``, in evaluation mode and without gradients.

    Args:
        env: Gives the sizes.
        cfg: The settings it was trained with.
        actor_state: Its weights and observation statistics. None: fresh ones.
    """
    settings = rsl_rl_cfg(cfg)
    actor = dict(settings["actor"])
    actor.pop("class_name")
    observations = env.get_observations()
    network = MLPModel(observations, settings["obs_groups"], "actor", env.num_actions, **actor).to(env.device)
    if actor_state is not None:
        network.load_state_dict(dict(actor_state))
    network.eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network
