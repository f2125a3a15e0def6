"""Twin of :mod:`lab_tasks.tracking.motion_command`, which says what it does."""

from __future__ import annotations

import warp as wp

from lab_tasks.tracking.motion_command import MotionCommand, MotionCommandCfg
from lab_warp.capture import Island, eager
from lab_warp.env import WarpEnv
from lab_warp.mdp import ClipCommandWarp
from lab_warp.twins import twin_of


@twin_of(MotionCommandCfg)
class MotionCommandWarp(ClipCommandWarp, MotionCommand):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Frames move and are shown in two launches; errors and the sampler go on in torch, between two graphs."""

    def __init__(self, cfg: MotionCommandCfg, env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._table = [wp.from_torch(buffer) for buffer in (self.library.starts, self._rows, self._shown)]
        self._errors = Island("command term of a motion: its errors and its sampler", super().update_metrics)

    def update_metrics(self) -> None:
        eager(self._errors)

    def _show(self, mask: wp.array | None) -> None:
        self._show_rows(mask, *self._table)
