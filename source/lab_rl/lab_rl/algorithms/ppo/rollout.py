"""What PPO remembers of a rollout, and the returns that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from tensordict import TensorDict
from torch import Tensor

from lab_core.agents import PPOCfg
from lab_rl.cuda_graph import CapturedCall


class RslRlRollout:
    """A rollout of T steps in rsl-rl's own code.

    A step that ends in a time-out is worth gamma V(final_obs) more.

    Args:
        alg: Networks and storage.
        cfg: The settings.
        bootstraps: Whether time-outs count as cut off.
    """

    def __init__(self, alg: PPO, cfg: PPOCfg, bootstraps: bool) -> None:
        self._alg, self._gamma, self._bootstraps = alg, cfg.gamma, bootstraps

    def act(self, step: int, observations: TensorDict) -> Tensor:
        """Returns the actions (N, A) of a step, drawn from the policy."""
        return self._alg.act(observations)

    def store(
        self, step: int, observations: TensorDict, rewards: Tensor, dones: Tensor, extras: dict[str, Any]
    ) -> None:
        """Remembers what a step led to: observations after it, rewards (N,), and which episodes ended, (N,)."""
        if self._bootstraps:
            rewards = rewards + self._value_of_time_outs(extras)
        # Without "time_outs", so that rsl-rl does not add the value of the observation before the step.
        self._alg.process_env_step(observations, rewards, dones, {})

    def finish(self, observations: TensorDict) -> None:
        """Computes returns and advantages, with the observations after the last step."""
        self._alg.compute_returns(observations)

    def _value_of_time_outs(self, extras: Mapping[str, Any]) -> Tensor:
        critic = self._alg.critic
        memory = critic.get_hidden_state()
        values = critic(extras["final_obs"]).squeeze(-1)
        critic.reset(hidden_state=memory)
        # where(): the value of an environment that goes on must not matter, not even when it is NaN
        return torch.where(extras["time_outs"], self._gamma * values, 0.0)


class CapturedRollout:
    """Does the same with few calls: on a GPU each step's actions are one CUDA graph, and all values and returns
    together another one, behind the rollout. On a CPU the numbers are the same, bit for bit.

    Args:
        alg: Networks and storage.
        cfg: The settings.
        bootstraps: Whether time-outs count as cut off.
    """

    def __init__(self, alg: PPO, cfg: PPOCfg, bootstraps: bool) -> None:
        self._alg, self._cfg, self._bootstraps = alg, cfg, bootstraps
        storage = alg.storage
        device = storage.rewards.device
        self._rewards = torch.zeros_like(storage.rewards[..., 0])
        self._time_outs = torch.zeros_like(self._rewards, dtype=torch.bool)
        self._final: Any = torch.zeros_like(storage.observations) if bootstraps else None
        self._last: Any = torch.zeros_like(storage.observations[0])
        steps = range(cfg.num_steps_per_env)
        self._act = [CapturedCall(partial(self._draw_actions, step), device) for step in steps]
        self._evaluate = CapturedCall(self._compute_returns, device)

    def act(self, step: int, observations: TensorDict) -> Tensor:
        """Returns the actions (N, A) of a step, drawn from the policy."""
        self._alg.storage.observations[step].copy_(observations)
        return self._act[step]()

    def store(
        self, step: int, observations: TensorDict, rewards: Tensor, dones: Tensor, extras: dict[str, Any]
    ) -> None:
        """Remembers what a step led to; see :class:`RslRlRollout`."""
        self._rewards[step].copy_(rewards)
        self._alg.storage.dones[step].copy_(dones.unsqueeze(1))
        if self._final is not None:
            final = extras["final_obs"]
            for group in self._final.keys():
                self._final.get(group)[step].copy_(final[group])
            self._time_outs[step].copy_(extras["time_outs"])

    def finish(self, observations: TensorDict) -> None:
        """Computes values, returns and advantages, with the observations after the last step."""
        self._last.copy_(observations)
        self._evaluate()

    def _draw_actions(self, step: int) -> Tensor:
        actor, storage = self._alg.actor, self._alg.storage
        storage.actions[step].copy_(actor(storage.observations[step], stochastic_output=True))
        actions = storage.actions[step]
        storage.actions_log_prob[step].copy_(actor.get_output_log_prob(actions).unsqueeze(1))
        drawn_from = actor.output_distribution_params
        if storage.distribution_params is None:
            shape = self._rewards.shape
            storage.distribution_params = tuple(part.new_zeros(*shape, *part.shape[1:]) for part in drawn_from)
        for stored, part in zip(storage.distribution_params, drawn_from, strict=True):
            stored[step].copy_(part)
        return actions

    def _compute_returns(self) -> Tensor:
        """Generalised advantage estimation (Schulman et al. 2016)."""
        storage, critic, cfg = self._alg.storage, self._alg.critic, self._cfg
        for step in range(cfg.num_steps_per_env):
            storage.values[step].copy_(critic(storage.observations[step]))
            rewards = self._rewards[step]
            if self._final is not None:
                beyond = cfg.gamma * critic(self._final[step]).squeeze(-1)
                rewards = rewards + torch.where(self._time_outs[step], beyond, 0.0)
            storage.rewards[step].copy_(rewards.unsqueeze(1))
        next_values, advantage = critic(self._last), torch.zeros_like(storage.values[0])
        for step in reversed(range(cfg.num_steps_per_env)):
            goes_on = 1.0 - storage.dones[step].float()
            surprise = storage.rewards[step] + goes_on * cfg.gamma * next_values - storage.values[step]
            advantage = surprise + goes_on * cfg.gamma * cfg.lam * advantage
            storage.returns[step].copy_(advantage + storage.values[step])
            next_values = storage.values[step]
        advantages = storage.returns - storage.values
        storage.advantages.copy_((advantages - advantages.mean()) / (advantages.std() + 1e-8))
        return storage.advantages
