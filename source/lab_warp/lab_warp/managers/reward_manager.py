"""Rewards as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import warp as wp

from lab_core.managers import RewardManager, RewardTermCfg
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.reductions import masked_means
from lab_warp.views import share

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv


class RewardManagerWarp(WarpTerms, RewardManager):
    """Computes ``reward = sum(weight * term) * dt``.

    Weights lie on the device, so that a change acts on the next step without a new recording; only a term whose weight
    was 0 when the step was recorded is not in it and needs one. So does a class term whose weight becomes 0: what it
    remembers must not go on.
    """

    _env: WarpEnv

    def __init__(self, cfg: Mapping[str, RewardTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        terms = len(self._cfgs)
        self._values = torch.zeros(max(terms, 1), self.num_envs, device=self.device)
        self._device_weights = torch.zeros(terms, device=self.device)
        self._copied_weights: list[float] = []
        self._evaluated: set[str] | None = None
        """Terms that the recorded step evaluates; None before the first step."""
        self._slots, _ = env.log.reserve([f"Episode_Reward/{name}" for name in self._cfgs])
        self.warp = share(self, ("step_reward", "_episode_sums", "reward", "_values", "_device_weights"))
        self._value_views = [wp.from_torch(row) for row in self._values]
        self._fix_terms()
        self.copy_settings()

    _state_exclude = ("_values", "_device_weights", "reward")

    def copy_settings(self) -> None:
        """Hands changed weights to the device; called between steps."""
        weights = [cfg.weight for cfg in self._cfgs.values()]
        if weights == self._copied_weights:
            return
        self._device_weights.copy_(torch.tensor(weights))
        self._copied_weights = weights
        evaluated = self._evaluated
        if evaluated is None:
            return
        if any(cfg.weight for name, cfg in self._cfgs.items() if name not in evaluated):
            self._env.request_capture("a reward term's weight is no longer 0")
        elif any(self._cfgs[name].weight == 0.0 for name in evaluated & self._class_terms.keys()):
            self._env.request_capture("a reward term with a memory has the weight 0 now and must rest")

    def compute(self, dt: float) -> torch.Tensor:
        self._evaluated = evaluated = {name for name, cfg in self._cfgs.items() if cfg.weight != 0.0}
        for row, name in enumerate(self._cfgs):
            if name in evaluated:
                self._evaluate(name, self._value_views[row], self._values[row])
        view = self.warp
        wp.launch(
            kernels.sum_rewards,
            dim=self.num_envs,
            inputs=[view.values, view.device_weights, dt],
            outputs=[view.step_reward, view.episode_sums, view.reward],
            device=self._env.wp_device,
        )
        return self.reward

    def reset_masked(self) -> None:
        """Logs the sums of the episodes that ended and starts new ones."""
        shared, device = self._env.warp, self._env.wp_device
        if self._cfgs:
            scale = 1.0 / self._env.max_episode_length_s
            masked_means(self.warp.episode_sums, shared.reset_mask, shared.reset_count, self._slots, scale, device)
            wp.launch(
                kernels.clear_rows,
                dim=self._episode_sums.shape,
                inputs=[shared.reset_mask],
                outputs=[self.warp.episode_sums],
                device=device,
            )
        self._reset_class_terms()
