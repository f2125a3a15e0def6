"""Curriculum: how the task changes during training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.env import Env
from lab_core.managers.errors import TermError
from lab_core.managers.manager_base import ManagerBase, TermCfg


@dataclass(kw_only=True)
class CurriculumTermCfg(TermCfg):
    """``func(env, mask, **params) -> None | float | 0-d tensor | dict of these``.

    It is called in every step, before the environments of ``mask`` (N,) bool are reset; the mask may be empty.
    """


class CurriculumManager(ManagerBase[CurriculumTermCfg]):
    """Runs the curriculum terms. A reset logs what they returned as ``Curriculum/<term>[/<key>]``."""

    kind = "curriculum"
    cfg_type = CurriculumTermCfg
    leading = ("env", "mask")
    _state_exclude = ("_log",)

    def __init__(self, cfg: Mapping[str, CurriculumTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        self._log: dict[str, torch.Tensor | float] = {}

    def compute(self, mask: torch.Tensor) -> None:
        """Evaluates the terms for the environments of ``mask`` (N,) bool, which are about to be reset."""
        self._log = {}
        for name in self._cfgs:
            value = self._call(name, mask)
            if isinstance(value, Mapping):
                for key, item in value.items():
                    self._log[f"Curriculum/{name}/{key}"] = self._number(f"{name}/{key}", item)
            elif value is not None:
                self._log[f"Curriculum/{name}"] = self._number(name, value)

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        super().reset(mask)
        return dict(self._log)

    def _number(self, name: str, value: Any) -> torch.Tensor | float:
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            return value.reshape(()).clone()
        if isinstance(value, (int, float)):
            return float(value)
        given = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise TermError(f"{self._what(name)} must return a number, a 0-d tensor or a dict of these, got {given}.")
