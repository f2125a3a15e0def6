"""Terminations as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import warp as wp

from lab_core.managers import TerminationManager, TerminationTermCfg
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.reductions import LANES
from lab_warp.views import share

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv


class TerminationManagerWarp(WarpTerms, TerminationManager):
    """Keeps apart episodes that ended from those that were cut off; chooses what the step resets."""

    _env: WarpEnv

    def __init__(self, cfg: Mapping[str, TerminationTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        terms = len(self._cfgs)
        self.flags = torch.zeros(4, self.num_envs, dtype=torch.bool, device=self.device)
        """(4, N) bool: terminated, time-outs, either, time-outs that are not terminated too."""
        self.terminated, self.time_outs, self.dones, _ = self.flags.unbind()
        self._rows = torch.zeros(max(terms, 1), self.num_envs, dtype=torch.bool, device=self.device)
        self._is_time_out = torch.zeros(terms, dtype=torch.bool, device=self.device)
        self._slots, _ = env.log.reserve([f"Episode_Termination/{name}" for name in self._columns])
        names = ("terminated", "time_outs", "dones", "flags", "_term_dones", "_last_episode_dones", "_is_time_out")
        self.warp = share(self, (*names, "_rows"))
        self.warp.non_finite = wp.from_torch(env.physics.non_finite)
        self._row_views = [wp.from_torch(row) for row in self._rows]
        self._copied_kinds: list[bool] = []
        self._fix_terms()
        self.copy_settings()

    _state_exclude = ("_rows", "_is_time_out", "terminated", "time_outs", "dones")

    def compute(self) -> torch.Tensor:
        for row, name in enumerate(self._cfgs):
            self._evaluate(name, self._row_views[row], self._rows[row])
        view, shared = self.warp, self._env.warp
        wp.launch(
            kernels.join_terminations,
            dim=self.num_envs,
            inputs=[view.rows, view.is_time_out, view.non_finite],
            outputs=[view.flags, view.term_dones, view.last_episode_dones, shared.reset_mask, shared.reset_count],
            device=self._env.wp_device,
        )
        return self.dones

    def reset_masked(self) -> None:
        """Tells class terms about the reset and logs why episodes ended."""
        self._reset_class_terms()
        wp.launch_tiled(
            kernels.shares,
            dim=[len(self._columns)],
            inputs=[self.warp.last_episode_dones, self._env.warp.reset_count],
            outputs=[self._slots],
            block_dim=LANES,
            device=self._env.wp_device,
        )

    def copy_settings(self) -> None:
        """Tells the device which terms are time-outs, where that changed; called between steps."""
        kinds = [cfg.time_out for cfg in self._cfgs.values()]
        if kinds != self._copied_kinds:
            self._is_time_out.copy_(torch.tensor(kinds, dtype=torch.bool))
            self._copied_kinds = kinds
