"""What twins of commands that play clips share; see :mod:`lab_core.mdp.commands_clip`, which says what they do."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
import warp as wp

from lab_core.mdp import ClipCommandCfg, ClipCommandTerm
from lab_warp.env import ClipCommandArrays, WarpEnv
from lab_warp.launches import Kernel
from lab_warp.mdp import commands_clip_kernels as kernels
from lab_warp.views import share


class ClipCommandWarp(ClipCommandTerm):
    """Mixin for the twin of a clip command, in front of the command's own class: ``class FollowWarp(ClipCommandWarp,
    Follow)``. Frames move in one launch, and a subclass says by :meth:`_show` what follows from them.

    Nothing is drawn here: clips and frames come from a reset event, which may be Warp or torch code.
    """

    _env: WarpEnv
    warp: ClipCommandArrays

    def __init__(self, cfg: ClipCommandCfg, env: WarpEnv) -> None:
        super().__init__(cfg, env)  # pyright: ignore[reportCallIssue]  (that of the command, which comes next)
        self.warp = share(ClipCommandArrays, self)
        self._started_array = wp.from_torch(self._started)
        self._counter_array = wp.from_torch(self.command_counter)
        self._metric_arrays = [wp.from_torch(values) for values in self.metrics.values()]

    @abstractmethod
    def _show(self, mask: wp.array | None) -> None:
        """Launches what writes :attr:`command` and all else that terms read, for the frames that are shown now: in the
        environments of ``mask`` (N,) bool, or in all."""

    def compute(self, dt: float) -> None:
        self._move(None, None, None)
        self._show(None)

    def start_at(
        self, mask: wp.array | torch.Tensor, clip: wp.array | torch.Tensor | int, frame: wp.array | torch.Tensor | int
    ) -> None:
        """As in torch; ``mask``, ``clip`` and ``frame`` (N,) int64 are all tensors, or all arrays of Warp."""
        if isinstance(mask, torch.Tensor):
            super().start_at(mask, clip, frame)  # pyright: ignore[reportArgumentType]
        else:
            self._move(mask, clip, frame)
            self._show(mask)

    def refresh(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._show(mask)

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begins episodes in the environments of ``mask`` (N,) wp.bool; other rows stay bitwise unchanged."""
        for values in self._metric_arrays:
            self._launch(kernels.clear, [mask], [values])
        self._launch(kernels.begin, [mask], [self.warp.frame, self._started_array, self._counter_array])
        self._show(mask)

    def _show_rows(self, mask: wp.array | None, starts: wp.array, rows: wp.array, out: wp.array) -> None:
        """Copies rows of a table of all frames, for :meth:`_show`.

        Args:
            mask: (N,) bool, or None for all.
            starts: (C,) int64, row of the first frame of each clip.
            rows: (F, D) float32.
            out: (N, D) float32.
        """
        wp.launch(
            kernels.show_rows,
            dim=out.shape,
            inputs=[mask, self.warp.clip, self.warp.frame, starts, rows],
            outputs=[out],
            device=self._env.wp_device,
        )

    def _move(self, mask: wp.array | None, clip: Any, frame: Any) -> None:
        outputs = [self.warp.clip, self.warp.frame, self._started_array]
        self._launch(kernels.move, [mask, clip, frame, self.warp.clip_lengths], outputs)

    def _launch(self, kernel: Kernel, inputs: list[Any], outputs: list[wp.array]) -> None:
        wp.launch(kernel, dim=self._env.num_envs, inputs=inputs, outputs=outputs, device=self._env.wp_device)
