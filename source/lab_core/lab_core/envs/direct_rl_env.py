"""Environments whose task is written as methods of a class."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.config import MISSING
from lab_core.envs.observations import Observations
from lab_core.envs.rl_env import RLEnv
from lab_core.envs.rl_env_cfg import RLEnvCfg
from lab_core.managers import FiniteActionCheck
from lab_core.managers.checks import check_tensor
from lab_core.masks import masked_copy_
from lab_core.signals import Noise, NoiseCfg


@dataclass(kw_only=True)
class DirectRLEnvCfg(RLEnvCfg):
    """Widths of a direct environment. The configuration of a task overrides ``build`` to return its environment."""

    num_actions: int = MISSING
    num_observations: int = MISSING
    action_noise: NoiseCfg | None = None
    """On the action as the policy gave it."""
    observation_noise: NoiseCfg | None = None
    """On the group ``policy``."""


class DirectRLEnv(RLEnv):
    """A task as methods; they see masks, never indices.

    A subclass writes :meth:`_apply_actions`, :meth:`_get_observations`, :meth:`_get_rewards`, :meth:`_get_dones`,
    :meth:`_reset_state` and, if it keeps buffers or logs something, :meth:`_reset_buffers`. The current action is
    ``self.actions`` (N, A). What these methods return may be a live buffer.

    Raises:
        TermError: one of them returned a tensor of another shape or type than it should.
    """

    cfg: Any
    """Configuration in use, of the class that built the environment."""

    def _load_managers(self) -> None:
        self.actions = torch.zeros(self.num_envs, self.cfg.num_actions, device=self.device)
        columns = {"action": slice(0, self.cfg.num_actions)}
        self._action_check = FiniteActionCheck(self.num_envs, columns, self.cfg.num_actions, self.device)
        self._noise: dict[str, Noise] = {}
        for name, noise, width in (
            ("action", self.cfg.action_noise, self.cfg.num_actions),
            ("observation", self.cfg.observation_noise, self.cfg.num_observations),
        ):
            if noise is not None:
                self._noise[name] = noise.build((self.num_envs, width), self.device)
        self._setup()
        self._set_spaces(self.cfg.num_actions, {"policy": (self.cfg.num_observations,)})

    def _setup(self) -> None:
        """Creates the buffers of the task."""

    @abstractmethod
    def _get_observations(self) -> Observations:
        """Returns ``{"policy": (N, D)}``."""

    @abstractmethod
    def _get_rewards(self) -> torch.Tensor:
        """Returns the reward of the step (N,)."""

    @abstractmethod
    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns terminated and time-out (N,) bool."""

    @abstractmethod
    def _reset_state(self, mask: torch.Tensor) -> None:
        """Writes a start state into the environments of ``mask`` (N,) bool, which hold the default state."""

    def _reset_buffers(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Clears the task's buffers in the environments of ``mask`` (N,) bool, which hold the state that the episode
        starts from: a drawn one, or one from outside. Returns values to log, 0-d each."""
        del mask
        return {}

    def _process_actions(self) -> None:
        actions = self._action_check(self._latest.actions)
        noise = self._noise.get("action")
        self.actions.copy_(noise(actions, self.generator) if noise else actions)

    def _raise_for_invalid_actions(self) -> None:
        self._action_check.raise_for_invalid()

    def _compute_dones(self) -> None:
        terminated, time_outs = self._get_dones()
        for name, value in (("terminated", terminated), ("time-out", time_outs)):
            check_tensor(value, (self.num_envs,), f"{type(self).__name__}._get_dones: {name}", torch.bool)
        self.reset_terminated.copy_(terminated | self.physics.non_finite)
        self.reset_time_outs.copy_(time_outs)
        torch.logical_or(self.reset_terminated, self.reset_time_outs, out=self.reset_buf)

    def _compute_reward(self) -> None:
        reward = self._get_rewards()
        check_tensor(reward, (self.num_envs,), f"{type(self).__name__}._get_rewards")
        self.reward_buf.copy_(reward)

    def _compute_observations(self, update_history: bool | torch.Tensor) -> Observations:
        observations = self._get_observations()
        shape = (self.num_envs, self.cfg.num_observations)
        check_tensor(observations.get("policy"), shape, f"{type(self).__name__}._get_observations: 'policy'")
        copies = {name: value.clone() for name, value in observations.items()}
        if "observation" in self._noise:
            before = self.generator.get_state()
            copies["policy"] = self._noise["observation"](copies["policy"], self.generator)
            if update_history is False:  # only a look
                self.generator.set_state(before)
        return copies

    def _draw_state(self, mask: torch.Tensor) -> None:
        super()._draw_state(mask)
        self._reset_state(mask)

    def _reset_managers(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        masked_copy_(self.actions, 0.0, mask)
        for noise in self._noise.values():
            noise.reset(mask, self.generator)
        return self._reset_buffers(mask) | super()._reset_managers(mask)
