"""Rewards as Warp code."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import warp as wp

from lab_core.managers import RewardTermCfg, RewardTerms
from lab_warp.env import RewardArrays, WarpEnv
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.reductions import masked_means
from lab_warp.views import Shared, shared


class RewardManagerWarp(WarpTerms, RewardTerms):
    """Computes ``reward = sum(weight * term) * dt``.

    Weights lie on the device, so that a change acts on the next step without a new capture; only a term whose weight
    was 0 when the step was captured is not in it and needs one. So does a class term whose weight becomes 0: what it
    remembers must not go on.
    """

    def __init__(self, cfg: Mapping[str, RewardTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        terms = len(self._cfgs)
        self.reward = self.scratch(self.reward)
        self._values = self.scratch(shared(torch.zeros(max(terms, 1), self.num_envs, device=self.device)))
        self._rows = self.scratch([shared(row) for row in self._values.torch])
        self._device_weights = self.scratch(shared(torch.zeros(terms, device=self.device)))
        self._copied_weights: list[float] = []
        self._evaluated: set[str] | None = None
        """Terms that the captured step evaluates; None before the first step."""
        self._slots, _ = env.log.reserve(self._log_names)
        self._outputs = [wp.from_torch(buffer) for buffer in (self.step_reward, self._episode_sums, self.reward)]
        self.warp = RewardArrays(self._outputs[0], self._device_weights.warp)
        self._fix_terms()
        self.copy_settings()

    def copy_settings(self) -> None:
        """Hands changed weights to the device; called between steps."""
        weights = [cfg.weight for cfg in self._cfgs.values()]
        if weights == self._copied_weights:
            return
        self._device_weights.torch.copy_(torch.tensor(weights))
        self._copied_weights = weights
        evaluated = self._evaluated
        if evaluated is None:
            return
        if any(cfg.weight for name, cfg in self._cfgs.items() if name not in evaluated):
            self._env.request_capture("a reward term's weight is no longer 0")
        elif any(self._cfgs[name].weight == 0.0 for name in evaluated & self._class_terms.keys()):
            self._env.request_capture("a reward term with a memory has the weight 0 now and must rest")

    def compute(self, dt: float) -> torch.Tensor:
        """Evaluates the terms after a step of ``dt`` seconds.

        Returns:
            Reward (N,), overwritten by the next call.
        """
        self._evaluated = evaluated = {name for name, cfg in self._cfgs.items() if cfg.weight != 0.0}
        for row, name in enumerate(self._cfgs):
            if name in evaluated:
                self._evaluate(name, self._rows[row])
        wp.launch(
            kernels.sum_rewards,
            dim=self.num_envs,
            inputs=[self._values.warp, self._device_weights.warp, dt],
            outputs=self._outputs,
            device=self._env.wp_device,
        )
        return self.reward

    def reset(self, mask: Shared) -> None:
        """Logs the sums of the episodes that ended in the environments of ``mask``, and starts new ones."""
        device, (_, sums, _) = self._env.wp_device, self._outputs
        if self._cfgs:
            scale = 1.0 / self._env.max_episode_length_s
            masked_means(sums, mask.warp, self._env.warp.reset_count, self._slots, scale, device)
            wp.launch(
                kernels.clear_rows,
                dim=self._episode_sums.shape,
                inputs=[mask.warp],
                outputs=[sums],
                device=device,
            )
        self._reset_class_terms(mask)
