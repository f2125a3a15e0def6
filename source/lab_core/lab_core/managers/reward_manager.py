"""Rewards: a weighted sum of terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from lab_core.env import Env
from lab_core.managers.checks import check_number
from lab_core.managers.function_terms import FunctionTerms, TermCfg, TorchTerms
from lab_core.managers.manager_base import function_name
from lab_core.masks import masked_copy_, masked_mean
from lab_core.read_only import ReadOnlyDict

_HOW_TO_CHANGE = 'weights are changed by assigning a dict, as in env.reward_manager.weights = {"alive": 2.0}.'


@dataclass(kw_only=True)
class RewardTermCfg(TermCfg):
    """``func(env, **params) -> (N,)``."""

    weight: float = 1.0
    """Factor of the term; 0: the function is not called."""


class RewardTerms(FunctionTerms[RewardTermCfg]):
    """Holds weights, and what the terms were worth, in all front ends."""

    kind = "reward"
    cfg_type = RewardTermCfg

    def __init__(self, cfg: Mapping[str, RewardTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        size = (self.num_envs, len(self._cfgs))
        self.step_reward = torch.zeros(size, device=self.device)
        """(N, K) weighted terms of the latest step, per second."""
        self._episode_sums = torch.zeros(size, device=self.device)
        self.reward = torch.zeros(self.num_envs, device=self.device)
        """(N,) of the latest step."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weight of every term; assign a dict to change some of them. They act on the next step.

        What it returns refuses to be written: an item of it would change nothing.

        Raises:
            UnknownTermError: there is no such term.
            TermError: a weight is not a finite number.
        """
        return ReadOnlyDict({name: cfg.weight for name, cfg in self._cfgs.items()}, _HOW_TO_CHANGE)

    @weights.setter
    def weights(self, weights: Mapping[str, float]) -> None:
        for name, weight in weights.items():
            self._require(name)
            check_number(weight, f"The weight of {self._what(name)}")
        for name, weight in weights.items():
            self._cfgs[name].weight = weight

    def non_finite_terms(self) -> list[str]:
        """Returns the terms that are NaN or infinite in the latest step, or were so before in an episode that still
        runs. It waits for the device: to explain an error."""
        finite = self.step_reward.isfinite().all(dim=0) & self._episode_sums.isfinite().all(dim=0)
        return [name for name, is_finite in zip(self._cfgs, finite.tolist(), strict=True) if not is_finite]

    @cached_property
    def _log_names(self) -> list[str]:
        return [f"Episode_Reward/{name}" for name in self._cfgs]

    def _check_cfg(self, name: str, cfg: RewardTermCfg) -> None:
        check_number(cfg.weight, f"The weight of {self._what(name)}")

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [[name, function_name(cfg.func), cfg.weight] for name, cfg in self._cfgs.items()]
        return ["name", "function", "weight"], rows


class RewardManager(RewardTerms, TorchTerms[RewardTermCfg]):
    """Computes ``reward = sum(weight * term) * dt``.

    A reset logs ``Episode_Reward/<term>``: the mean over the ended episodes of the term's sum, over the longest
    episode's duration.
    """

    def compute(self, dt: float) -> torch.Tensor:
        """Evaluates the terms after a step of ``dt`` seconds.

        Returns:
            Reward (N,), overwritten by the next call.
        """
        for column, (name, cfg) in enumerate(self._cfgs.items()):
            target = self.step_reward[:, column]
            if cfg.weight == 0.0:
                target.zero_()
            else:
                torch.mul(self._call_checked(name), cfg.weight, out=target)
        self._episode_sums.add_(self.step_reward, alpha=dt)
        torch.sum(self.step_reward, dim=1, out=self.reward)
        return self.reward.mul_(dt)

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        means = masked_mean(self._episode_sums, mask) / self._env.max_episode_length_s
        masked_copy_(self._episode_sums, 0.0, mask)
        super().reset(mask)
        return dict(zip(self._log_names, means.unbind(), strict=True))
