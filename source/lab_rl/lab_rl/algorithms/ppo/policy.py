"""The policy network alone, for playing and export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rsl_rl.models import MLPModel, RNNModel
from rsl_rl.utils import resolve_class
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
        if isinstance(network, RNNModel):
            layers = network.rnn.rnn
            names = ("h", "c") if isinstance(layers, torch.nn.LSTM) else ("h",)
            self.memory = dict.fromkeys(names, (layers.num_layers, layers.hidden_size))

    def act(self, observations: Mapping[str, torch.Tensor]) -> torch.Tensor:
        rows = observations[self.groups[0]].shape[:1]
        return _clipped(self.network(TensorDict({name: observations[name] for name in self.groups}, rows)), self)

    def forget(self, mask: torch.Tensor) -> None:
        self.network.reset(mask)

    def exported(self) -> torch.nn.Module:
        return _ExportedWithMemory(self) if self.memory else _Exported(self)


class _Exported(torch.nn.Module):
    def __init__(self, policy: PPOPolicy) -> None:
        super().__init__()
        self.network = policy.network.as_onnx(verbose=False)
        self.clip_actions = policy.clip_actions

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return _clipped(self.network(obs), self)


class _ExportedWithMemory(torch.nn.Module):
    def __init__(self, policy: PPOPolicy) -> None:
        super().__init__()
        self.network = policy.network.as_onnx(verbose=False)
        self.clip_actions = policy.clip_actions

    def forward(self, obs: torch.Tensor, *memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        actions, *new = self.network(obs, *memory)
        return (_clipped(actions, self), *new[: len(memory)])  # of gated recurrent units the last one is None


def _clipped(actions: torch.Tensor, owner: PPOPolicy | _Exported | _ExportedWithMemory) -> torch.Tensor:
    limit = owner.clip_actions
    return actions if limit is None else actions.clamp(-limit, limit)


def build_actor(env: RslRlEnv, cfg: PPOCfg, state: Mapping[str, Any] | None = None) -> MLPModel:
    """Returns the actor that PPO trains for ``env``; see :func:`build_network`."""
    settings = rsl_rl_cfg(cfg)
    return build_network(env, cfg.obs_groups["actor"], settings["actor"], state)


def build_network(
    env: RslRlEnv, groups: Sequence[str], settings: Mapping[str, Any], state: Mapping[str, Any] | None = None
) -> MLPModel:
    """Returns a network of rsl-rl that acts in ``env``, in evaluation mode and without gradients.

    Args:
        env: Gives the sizes.
        groups: Observation groups that it reads.
        settings: Of the network, in rsl-rl's words.
        state: Its weights and observation statistics. None: fresh ones.
    """
    make, settings = resolve_class(dict(settings))
    network = make(env.get_observations(), {"actor": list(groups)}, "actor", env.num_actions, **settings)
    network = network.to(env.device)
    if state is not None:
        network.load_state_dict(dict(state))
    network.eval()
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network
