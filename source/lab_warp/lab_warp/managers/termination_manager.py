"""Terminations as Warp code."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import warp as wp

from lab_core.managers import TerminationTermCfg, TerminationTerms
from lab_warp.env import TerminationArrays, WarpEnv
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.reductions import LANES
from lab_warp.views import Shared, shared


class TerminationManagerWarp(WarpTerms, TerminationTerms):
    """Keeps apart episodes that ended from those that were cut off; chooses what the step resets."""

    def __init__(self, cfg: Mapping[str, TerminationTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        terms = len(self._cfgs)
        self.flags = self._flags(4, self.num_envs)
        """(4, N) bool: terminated, time-outs, either, time-outs that are not terminated too."""
        self.terminated, self.time_outs, self.dones = (self.scratch(row) for row in self.flags[:3])
        self.warp = TerminationArrays(*(wp.from_torch(row) for row in (self.terminated, self.time_outs, self.dones)))
        self._values = self.scratch(shared(self._flags(max(terms, 1), self.num_envs)))
        self._rows = self.scratch([shared(row) for row in self._values.torch])
        self._is_time_out = self.scratch(shared(self._flags(terms)))
        self._slots, _ = env.log.reserve(self._log_names)
        self._outputs = [wp.from_torch(flags) for flags in (self.flags, self._term_dones, self._last_episode_dones)]
        self._copied_kinds: list[bool] = []
        self._fix_terms()
        self.copy_settings()

    def compute(self) -> torch.Tensor:
        """Evaluates the terms and returns :attr:`dones`. The flags stay until the next call, also over a reset."""
        for row, name in enumerate(self._cfgs):
            self._evaluate(name, self._rows[row])
        env = self._env.warp
        wp.launch(
            kernels.join_terminations,
            dim=self.num_envs,
            inputs=[self._values.warp, self._is_time_out.warp, env.non_finite],
            outputs=[*self._outputs, env.reset_mask, env.reset_count],
            device=self._env.wp_device,
        )
        return self.dones

    def reset(self, mask: Shared) -> None:
        """Tells class terms about the reset of the environments in ``mask`` and logs why episodes ended."""
        self._reset_class_terms(mask)
        _, _, last_episode_dones = self._outputs
        wp.launch_tiled(
            kernels.shares,
            dim=[len(self._columns)],
            inputs=[last_episode_dones, self._env.warp.reset_count],
            outputs=[self._slots],
            block_dim=LANES,
            device=self._env.wp_device,
        )

    def copy_settings(self) -> None:
        """Tells the device which terms are time-outs, where that changed; called between steps."""
        kinds = [cfg.time_out for cfg in self._cfgs.values()]
        if kinds != self._copied_kinds:
            self._is_time_out.torch.copy_(torch.tensor(kinds, dtype=torch.bool))
            self._copied_kinds = kinds
