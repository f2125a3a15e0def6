"""Twin of :mod:`lab_tasks.tracking.motion_command`, which says what it does."""

from __future__ import annotations

import torch
import warp as wp

from lab_tasks.tracking.motion_command import MotionCommand, MotionCommandCfg
from lab_warp.capture import capture_torch
from lab_warp.env import WarpEnv
from lab_warp.mdp import ClipCommandWarp
from lab_warp.twins import twin_of


@twin_of(MotionCommandCfg)
class MotionCommandWarp(ClipCommandWarp, MotionCommand):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Frames move and are shown in two launches. Errors and the sampler go on in torch, on a GPU in the graph.

    Keeps the sampler's sums of probabilities up to date in every step, for resets that draw in a kernel.
    """

    def __init__(self, cfg: MotionCommandCfg, env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._borders = self.scratch(self.sampler.probabilities().cumsum(0).float())
        self._starts = self.scratch(torch.zeros(2, env.num_envs, dtype=torch.int64, device=env.device))
        self.borders = wp.from_torch(self._borders)
        self.bins = [wp.from_torch(values) for values in self.sampler.starts]
        self.drawn_clip, self.drawn_frame = map(wp.from_torch, self._starts)
        self.shown = wp.from_torch(self._shown)
        self.body_pos = wp.from_torch(self.target.body_pos, dtype=wp.vec3)
        self.body_quat = wp.from_torch(self.target.body_quat, dtype=wp.quat)
        self.body_ids = wp.from_torch(self.keys.ids)
        self._first_rows, self._table = wp.from_torch(self.library.starts), wp.from_torch(self._rows)

    def update_metrics(self) -> None:
        capture_torch(self._update_metrics)

    def _update_metrics(self) -> None:
        MotionCommand.update_metrics(self)
        self._borders.copy_(self.sampler.probabilities().cumsum(0))

    def _show(self, mask: wp.array | None) -> None:
        self._show_rows(mask, self._first_rows, self._table, self.shown)
