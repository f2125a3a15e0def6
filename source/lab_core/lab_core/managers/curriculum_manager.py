"""Curriculum: how the task changes during training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.env import Env
from lab_core.managers.errors import TermError
from lab_core.managers.function_terms import FunctionTerms, TermCfg, TorchTerms


@dataclass(kw_only=True)
class CurriculumTermCfg(TermCfg):
    """``func(env, mask, **params) -> None | float | 0-d tensor | dict of these``.

    It is called in every step, before the environments of ``mask`` (N,) bool are reset; the mask may be empty.
    """


class CurriculumTerms(FunctionTerms[CurriculumTermCfg]):
    """Holds the curriculum terms of all front ends and checks what they return."""

    kind = "curriculum"
    cfg_type = CurriculumTermCfg
    leading = ("env", "mask")

    def _numbers(self, name: str, value: Any) -> dict[str, torch.Tensor | float]:
        """Returns what a term's value says in the log: ``Curriculum/<term>[/<key>]`` -> number."""
        if isinstance(value, Mapping):
            return {f"Curriculum/{name}/{key}": self._number(f"{name}/{key}", item) for key, item in value.items()}
        return {} if value is None else {f"Curriculum/{name}": self._number(name, value)}

    def _number(self, name: str, value: Any) -> torch.Tensor | float:
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            return value.reshape(()).clone()
        if isinstance(value, (int, float)):
            return float(value)
        given = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
        raise TermError(f"{self._what(name)} must return a number, a 0-d tensor or a dict of these, got {given}.")


class CurriculumManager(CurriculumTerms, TorchTerms[CurriculumTermCfg]):
    """Runs the curriculum terms. A reset logs what they returned as ``Curriculum/<term>[/<key>]``."""

    def __init__(self, cfg: Mapping[str, CurriculumTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        self._log: dict[str, torch.Tensor | float] = self.scratch({})

    def compute(self, mask: torch.Tensor) -> None:
        """Evaluates the terms for the environments of ``mask`` (N,) bool, which are about to be reset."""
        self._log.clear()
        for name in self._cfgs:
            self._log |= self._numbers(name, self._call(name, mask))

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        super().reset(mask)
        return dict(self._log)
