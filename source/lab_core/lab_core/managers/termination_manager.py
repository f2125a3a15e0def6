"""Terminations: which episodes end, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers.errors import TermError, UnknownTermError
from lab_core.managers.function_terms import FunctionTerms, TermCfg, TorchTerms
from lab_core.managers.manager_base import function_name
from lab_core.masks import masked_copy_

NON_FINITE = "non_finite"
"""Name of the built-in term: the physics of the environment went non-finite."""


@dataclass(kw_only=True)
class TerminationTermCfg(TermCfg):
    """``func(env, **params) -> (N,) bool``."""

    time_out: bool = False
    """The episode is cut off rather than at its end: learning goes on from the value of the last observation."""


class TerminationTerms(FunctionTerms[TerminationTermCfg]):
    """Holds which term ended which episode, in all front ends. The built-in term ``non_finite`` comes last."""

    kind = "termination"
    cfg_type = TerminationTermCfg

    def __init__(self, cfg: Mapping[str, TerminationTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        if NON_FINITE in self._cfgs:
            raise TermError(f"{self._what(NON_FINITE)}: the name belongs to the built-in check of the physics.")
        self._columns = [*self._cfgs, NON_FINITE]
        self._term_dones = self._flags(self.num_envs, len(self._columns))
        self._last_episode_dones = self._flags(self.num_envs, len(self._columns))

    def get_term(self, name: str) -> torch.Tensor:
        """Returns the flags (N,) bool of one term in the latest step.

        Raises:
            UnknownTermError: there is no such term.
        """
        if name not in self._columns:
            raise UnknownTermError(unknown_name_message("termination term", name, self._columns))
        return self._term_dones[:, self._columns.index(name)]

    @cached_property
    def _log_names(self) -> list[str]:
        return [f"Episode_Termination/{name}" for name in self._columns]

    def _flags(self, *size: int) -> torch.Tensor:
        return torch.zeros(*size, dtype=torch.bool, device=self.device)

    def _check_cfg(self, name: str, cfg: TerminationTermCfg) -> None:
        if not isinstance(cfg.time_out, bool):
            raise TermError(f"{self._what(name)}: time_out must be a bool, got {cfg.time_out!r}.")

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [[name, function_name(cfg.func), cfg.time_out] for name, cfg in self._cfgs.items()]
        return ["name", "function", "time_out"], rows


class TerminationManager(TerminationTerms, TorchTerms[TerminationTermCfg]):
    """Keeps apart episodes that ended (``terminated``) from those that were cut off (``time_outs``).

    A built-in term ``non_finite`` terminates the environments whose physics went non-finite. A reset logs
    ``Episode_Termination/<term>``: the share of all environments whose latest episode ended by it.
    """

    def __init__(self, cfg: Mapping[str, TerminationTermCfg | None], env: Env) -> None:
        super().__init__(cfg, env)
        self.terminated = self._flags(self.num_envs)
        """(N,) bool, episodes that ended in the latest step."""
        self.time_outs = self._flags(self.num_envs)
        """(N,) bool, episodes that were cut off in the latest step."""
        self.dones = self._flags(self.num_envs)
        """(N,) bool, either of them."""

    def compute(self) -> torch.Tensor:
        """Evaluates the terms and returns :attr:`dones`. The flags stay until the next call, also over a reset."""
        ended, cut_off, columns = [self._env.physics.non_finite], [], []
        for name, cfg in self._cfgs.items():
            value = self._call_checked(name, torch.bool)
            columns.append(value)
            (cut_off if cfg.time_out else ended).append(value)
        torch.stack([*columns, self._env.physics.non_finite], dim=1, out=self._term_dones)
        _join(ended, self.terminated)
        _join(cut_off, self.time_outs)
        torch.logical_or(self.terminated, self.time_outs, out=self.dones)
        masked_copy_(self._last_episode_dones, self._term_dones, self.dones)
        return self.dones

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        super().reset(mask)
        shares = self._last_episode_dones.float().mean(dim=0)
        return dict(zip(self._log_names, shares.unbind(), strict=True))


def _join(flags: Sequence[torch.Tensor], out: torch.Tensor) -> None:
    """``out = any of flags``, all of them (N,) bool."""
    if len(flags) < 2:
        out.copy_(flags[0]) if flags else out.zero_()
        return
    torch.logical_or(flags[0], flags[1], out=out)
    for other in flags[2:]:
        out.logical_or_(other)
