"""Metrics: what is worth knowing about an episode without being rewarded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import torch

from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers.errors import TermError
from lab_core.managers.function_terms import FunctionTerms, TermCfg, TorchTerms
from lab_core.managers.manager_base import function_name
from lab_core.masks import masked_copy_, masked_mean

MetricMode = Literal["mean", "last", "max", "sum"]


@dataclass(kw_only=True)
class MetricTermCfg(TermCfg):
    """``func(env, **params) -> (N,)``, evaluated once per step after the rewards."""

    mode: MetricMode = "mean"
    """How the values of an episode become one."""


class MetricTerms(FunctionTerms[MetricTermCfg]):
    """Holds the values of the running episodes, in all front ends."""

    kind = "metric"
    cfg_type = MetricTermCfg

    def __init__(self, cfg: Mapping[str, MetricTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        self._values = torch.zeros(self.num_envs, len(self._cfgs), device=self.device)
        self._steps = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)

    @cached_property
    def _log_names(self) -> list[str]:
        return [f"Metrics/{name}" for name in self._cfgs]

    def _check_cfg(self, name: str, cfg: MetricTermCfg) -> None:
        if cfg.mode not in get_args(MetricMode):
            what = self._what(name)
            raise TermError(f"{what}: {unknown_name_message('mode', str(cfg.mode), get_args(MetricMode))}")

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [[name, function_name(cfg.func), cfg.mode] for name, cfg in self._cfgs.items()]
        return ["name", "function", "mode"], rows


class MetricsManager(MetricTerms, TorchTerms[MetricTermCfg]):
    """Follows values over episodes. A reset logs ``Metrics/<term>``, the mean over the ended episodes."""

    def compute(self) -> None:
        """Takes in the values of a step."""
        first = self._steps == 0
        self._steps.add_(1)
        for column, (name, cfg) in enumerate(self._cfgs.items()):
            value = self._call_checked(name).to(self._values.dtype)
            so_far = self._values[:, column]
            if cfg.mode == "mean":
                so_far.add_((value - so_far) / self._steps)
            elif cfg.mode == "sum":
                so_far.add_(value)
            elif cfg.mode == "last":
                so_far.copy_(value)
            else:
                so_far.copy_(torch.where(first, value, torch.maximum(so_far, value)))

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        means = masked_mean(self._values, mask)
        masked_copy_(self._values, 0.0, mask)
        masked_copy_(self._steps, 0, mask)
        super().reset(mask)
        return dict(zip(self._log_names, means.unbind(), strict=True))
