"""Metrics as Warp code."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import warp as wp

from lab_core.managers import MetricTermCfg, MetricTerms
from lab_warp.env import WarpEnv
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.reductions import masked_means
from lab_warp.views import Shared, shared

_MODES = {"mean": kernels.MEAN, "last": kernels.LAST, "max": kernels.MAX, "sum": kernels.SUM}


class MetricsManagerWarp(WarpTerms, MetricTerms):
    """Follows values over episodes. A reset logs ``Metrics/<term>``, the mean over the ended episodes."""

    def __init__(self, cfg: Mapping[str, MetricTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        terms = len(self._cfgs)
        self._new = self.scratch(shared(torch.zeros(max(terms, 1), self.num_envs, device=self.device)))
        """(K, N) values of the latest step."""
        self._rows = self.scratch([shared(row) for row in self._new.torch])
        self._modes = self.scratch(shared(torch.zeros(terms, dtype=torch.int32, device=self.device)))
        self._slots, _ = env.log.reserve(self._log_names)
        self._outputs = [wp.from_torch(self._values), wp.from_torch(self._steps)]
        self._copied_modes: list[str] = []
        self._fix_terms()
        self.copy_settings()

    def compute(self) -> None:
        """Takes in the values of a step."""
        if not self._cfgs:
            return
        for row, name in enumerate(self._cfgs):
            self._evaluate(name, self._rows[row])
        wp.launch(
            kernels.follow_metrics,
            dim=self.num_envs,
            inputs=[self._new.warp, self._modes.warp],
            outputs=self._outputs,
            device=self._env.wp_device,
        )

    def reset(self, mask: Shared) -> None:
        """Logs the episodes that ended in the environments of ``mask``, and starts new ones."""
        if not self._cfgs:
            return
        device, (values, _) = self._env.wp_device, self._outputs
        masked_means(values, mask.warp, self._env.warp.reset_count, self._slots, 1.0, device)
        wp.launch(
            kernels.clear_metrics,
            dim=self.num_envs,
            inputs=[mask.warp],
            outputs=self._outputs,
            device=device,
        )
        self._reset_class_terms(mask)

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
        self._modes.torch.copy_(torch.tensor([int(_MODES[mode]) for mode in modes], dtype=torch.int32))
        self._copied_modes = modes
