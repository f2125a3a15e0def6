"""Commands as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import warp as wp

from lab_core.managers import CommandManager, CommandTerm, CommandTermCfg
from lab_warp.managers.built_terms import WarpBuiltTerms

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv


class CommandManagerWarp(WarpBuiltTerms[CommandTerm], CommandManager):
    """Holds the command terms; those without a twin run in torch. A reset logs ``Metrics/<term>/<metric>``."""

    _env: WarpEnv
    _shared = "command"

    def __init__(self, cfg: Mapping[str, CommandTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._slots: dict[str, dict[str, tuple[wp.array, torch.Tensor]]] = {
            name: {metric: env.log.reserve([f"Metrics/{name}/{metric}"]) for metric in term.metrics}
            for name, term in self._terms.items()
        }

    _state_exclude = ("_slots",)

    def update_metrics(self) -> None:
        for name in self._terms:
            self._call(name, "update_metrics")

    def compute(self, dt: float) -> None:
        for name in self._terms:
            self._call(name, "compute", dt)

    def refresh_masked(self) -> None:
        """Adapts the commands of the environments that were reset to the state set from outside."""
        for name in self._terms:
            mask = self._env.warp.reset_mask if self._is_twin(name) else self._env.reset_mask
            self._call(name, "refresh", mask)

    def reset_masked(self) -> None:
        """Draws new commands in the environments that are being reset and logs their episodes."""
        for name, term in self._terms.items():
            if self._is_twin(name):
                slots = {metric: slot for metric, (slot, _) in self._slots[name].items()}
                term.reset(self._env.warp.reset_mask, slots)  # pyright: ignore[reportCallIssue]
            else:
                self._call_in_torch(name, self._reset_torch, name, term)

    def _reset_torch(self, name: str, term: CommandTerm) -> None:
        count = self._env.reset_count
        for metric, value in term.reset(self._env.reset_mask).items():
            slot = self._slots[name][metric][1]
            slot.copy_(torch.where(count > 0, value, slot))

    def _call(self, name: str, method: str, *args: Any) -> None:
        function = getattr(self._terms[name], method)
        if self._is_twin(name):
            function(*args)
        else:
            self._call_in_torch(name, function, *args)

    def _shared_shape(self, term: CommandTerm) -> tuple[int, ...]:
        return tuple(term.command.shape)
