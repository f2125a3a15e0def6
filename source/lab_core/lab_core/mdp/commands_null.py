"""A command that asks nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lab_core.env import Env
from lab_core.managers import CommandTerm, CommandTermCfg


@dataclass(kw_only=True)
class NullCommandCfg(CommandTermCfg):
    """See :class:`NullCommand`."""

    resampling_time_range: tuple[float, float] = (1e9, 1e9)
    """No command is drawn in any run [s]."""

    def build(self, env: Env) -> NullCommand:
        return NullCommand(self, env)


class NullCommand(CommandTerm):
    """A command without components (N, 0), for tasks that ask nothing but keep the term's place."""

    def __init__(self, cfg: NullCommandCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._command = torch.zeros(env.num_envs, 0, device=env.device)

    @property
    def command(self) -> torch.Tensor:
        return self._command

    def _resample(self, mask: torch.Tensor) -> None:
        pass

    def _update_command(self, mask: torch.Tensor) -> None:
        pass

    def update_metrics(self) -> None:
        pass
