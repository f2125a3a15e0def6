"""Metrics as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import warp as wp

from lab_core.managers import MetricsManager, MetricTermCfg
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.reductions import masked_means
from lab_warp.views import share

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv

_MODES = {"mean": kernels.MEAN, "last": kernels.LAST, "max": kernels.MAX, "sum": kernels.SUM}


class MetricsManagerWarp(WarpTerms, MetricsManager):
    """Follows values over episodes. A reset logs ``Metrics/<term>``, the mean over the ended episodes."""

    _env: WarpEnv

    def __init__(self, cfg: Mapping[str, MetricTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        terms = len(self._cfgs)
        self._rows = torch.zeros(max(terms, 1), self.num_envs, device=self.device)
        self._modes = torch.zeros(terms, dtype=torch.int32, device=self.device)
        self._slots, _ = env.log.reserve([f"Metrics/{name}" for name in self._cfgs])
        self.warp = share(self, ("_values", "_steps", "_rows", "_modes"))
        self._row_views = [wp.from_torch(row) for row in self._rows]
        self._copied_modes: list[str] = []
        self._fix_terms()
        self.copy_settings()

    _state_exclude = ("_rows", "_modes")

    def compute(self) -> None:
        if not self._cfgs:
            return
        for row, name in enumerate(self._cfgs):
            self._evaluate(name, self._row_views[row], self._rows[row])
        wp.launch(
            kernels.follow_metrics,
            dim=self.num_envs,
            inputs=[self.warp.rows, self.warp.modes],
            outputs=[self.warp.values, self.warp.steps],
            device=self._env.wp_device,
        )

    def reset_masked(self) -> None:
        """Logs the episodes that ended and starts new ones."""
        if not self._cfgs:
            return
        shared, device = self._env.warp, self._env.wp_device
        masked_means(self.warp.values, shared.reset_mask, shared.reset_count, self._slots, 1.0, device)
        wp.launch(
            kernels.clear_metrics,
            dim=self.num_envs,
            inputs=[shared.reset_mask],
            outputs=[self.warp.values, self.warp.steps],
            device=device,
        )
        self._reset_class_terms()

    def copy_settings(self) -> None:
        """Hands changed modes to the device; called between steps.

        Raises:
            TermError: there is no such mode.
        """
        modes = [cfg.mode for cfg in self._cfgs.values()]
        if modes == self._copied_modes:
            return
        for name, cfg in self._cfgs.items():
            self._check_cfg(name, cfg)
        self._modes.copy_(torch.tensor([int(_MODES[mode]) for mode in modes], dtype=torch.int32))
        self._copied_modes = modes
