"""Commands as Warp code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import warp as wp

from lab_core.managers import CommandTerm, CommandTermCfg, CommandTerms
from lab_core.mdp import ClipCommandTerm
from lab_warp.env import ClipCommandArrays, CommandArrays, WarpEnv
from lab_warp.managers.built_terms import WarpBuiltTerms
from lab_warp.reductions import masked_means
from lab_warp.views import Shared


class CommandManagerWarp(WarpBuiltTerms[CommandTerm], CommandTerms):
    """Holds the command terms; those without a twin run in torch. A reset logs ``Metrics/<term>/<metric>``.

    Twins of other terms read ``term.warp.command``. Of a term in torch that is a copy at one address, since torch code
    may make a new tensor in every call.
    """

    def __init__(self, cfg: Mapping[str, CommandTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._slots = self.scratch(
            {
                name: {metric: Shared(*env.log.reserve([f"Metrics/{name}/{metric}"])) for metric in term.metrics}
                for name, term in self._terms.items()
            }
        )
        self._metrics = {
            name: {metric: wp.from_torch(values.unsqueeze(1)) for metric, values in term.metrics.items()}
            for name, term in self._terms.items()
            if self._is_twin(name)
        }
        """Twin -> metric -> (N, 1)."""
        self._copies: dict[str, torch.Tensor] = self.scratch({})
        for name, term in self._terms.items():
            if not self._is_twin(name) and not hasattr(term, "warp"):
                self._copies[name] = torch.zeros(term.command.shape, device=self.device)
                shown: Any = term
                shown.warp = _arrays(term, self._copies[name])

    def copy_shared(self) -> None:
        """Shows to twins what terms in torch hold now; called between steps."""
        for name, copy in self._copies.items():
            copy.copy_(self._terms[name].command)

    def update_metrics(self) -> None:
        """Updates the metrics with the step that was just made, before any reset and any new command."""
        for name, term in self._terms.items():
            self._call(name, term.update_metrics)

    def compute(self, dt: float) -> None:
        """Moves all commands on by ``dt`` seconds."""
        for name, term in self._terms.items():
            self._call(name, term.compute, dt)

    def refresh(self, mask: Shared) -> None:
        """Adapts the commands of the environments in ``mask`` to the state they were reset to; nothing moves on."""
        for name, term in self._terms.items():
            self._call(name, term.refresh, mask.warp if self._is_twin(name) else mask.torch)

    def reset(self, mask: Shared) -> None:
        """Draws new commands in the environments of ``mask`` and logs the means of their episodes."""
        for name, term in self._terms.items():
            if self._is_twin(name):
                for metric, values in self._metrics[name].items():
                    slot, count = self._slots[name][metric].warp, self._env.warp.reset_count
                    masked_means(values, mask.warp, count, slot, 1.0, self._env.wp_device)
                self._call(name, term.reset, mask.warp)
            else:
                self._call(name, self._reset_torch, name, mask.torch)

    def _call_torch(self, name: str, function: Callable[..., object], *args: Any) -> None:
        super()._call_torch(name, function, *args)
        if name in self._copies:
            self._copies[name].copy_(self._terms[name].command)

    def _reset_torch(self, name: str, mask: torch.Tensor) -> None:
        count = self._env.reset_count
        for metric, value in self._terms[name].reset(mask).items():
            slot = self._slots[name][metric].torch
            slot.copy_(torch.where(count > 0, value, slot))


def _arrays(term: CommandTerm, copy: torch.Tensor) -> CommandArrays:
    """Returns what twins see of a term in torch, over a copy of its command (N, D)."""
    if not isinstance(term, ClipCommandTerm):
        return CommandArrays(wp.from_torch(copy))
    buffers = (wp.from_torch(buffer) for buffer in (copy, term.clip, term.frame, term.clip_lengths))
    return ClipCommandArrays(*buffers)
