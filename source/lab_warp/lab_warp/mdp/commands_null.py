"""Twin of :mod:`lab_core.mdp.commands_null`, which says what it does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import warp as wp

from lab_core import mdp
from lab_core.mdp import NullCommandCfg
from lab_warp.env import CommandArrays, WarpEnv
from lab_warp.mdp import commands_null_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import share


@dataclass
class NullCommandArrays:
    """Buffers of a null command, for kernels."""

    time_left: wp.array
    """(N,) [s]."""
    command_counter: wp.array
    """(N,)."""
    time_range: wp.array
    """(2,) [s]."""


@twin_of(mdp.NullCommandCfg)
class NullCommandWarp(mdp.NullCommand):
    """``warp.command`` is (N, 0) float32."""

    _env: WarpEnv

    def __init__(self, cfg: NullCommandCfg, env: WarpEnv) -> None:
        self._time_range = self.scratch(torch.zeros(2, device=env.device))
        super().__init__(cfg, env)
        self.set_cfg(cfg)
        self.warp = share(CommandArrays, self)
        self._arrays = share(NullCommandArrays, self)

    def set_cfg(self, cfg: NullCommandCfg) -> None:
        super().set_cfg(cfg)
        self._time_range.copy_(torch.tensor(cfg.resampling_time_range))

    def compute(self, dt: float) -> None:
        self._launch(None, dt)

    def refresh(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._launch(mask, 0.0)

    def _launch(self, reset_mask: wp.array | None, dt: float) -> None:
        term = self._arrays
        wp.launch(
            kernels.draw_times,
            dim=self._env.num_envs,
            inputs=[reset_mask, dt, term.time_range],
            outputs=[self._env.warp.rng, term.time_left, term.command_counter],
            device=self._env.wp_device,
        )
