"""Warp code for :class:`lab_core.mdp.ClipSampler`, which says what it does."""

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from lab_core.mdp import ClipSampler
from lab_warp.env import WarpEnv
from lab_warp.launches import Kernel
from lab_warp.mdp import clip_sampler_kernels as kernels

_CONSTANTS = ("lengths", "counts", "offsets", "clips", "first", "widths", "following", "shares")


class ClipSamplerWarp:
    """Updates a sampler, and draws from it, in kernels; its averages stay where they are.

    Results repeat bit for bit on a device, and agree with torch up to rounding.
    """

    def __init__(self, sampler: ClipSampler, env: WarpEnv) -> None:
        self._env, self._sampler = env, sampler
        self._bins = kernels.Bins()
        for name in _CONSTANTS:
            setattr(self._bins, name, wp.from_torch(getattr(sampler, f"_{name}")))
        self._bins.frames = sampler.bin_frames
        self._averages = [wp.from_torch(getattr(sampler, name)) for name in ("returns", "failures", "visits")]
        count, device = sampler.num_bins, env.wp_device
        self._sums = wp.zeros((count, 4), dtype=wp.int64, device=device)
        self._weights = wp.zeros(count, dtype=wp.float64, device=device)
        self._totals = wp.zeros((1, 3), dtype=wp.int64, device=device)
        self._tree = wp.zeros(count, dtype=wp.int64, device=device)
        self.clip, self.frame = (
            wp.from_torch(torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)) for _ in range(2)
        )
        """(N,) int64 each, what :meth:`draw` drew."""

    def update(self, clip: wp.array, frame: wp.array, score: wp.array, failed: wp.array) -> None:
        """Takes over how a step went in all environments: (N,) int64, int64, float32 and bool."""
        wp.launch(
            kernels.add_step,
            dim=self._env.num_envs,
            inputs=[self._bins, clip, frame, score, failed],
            outputs=[self._sums],
            device=self._env.wp_device,
        )
        self._launch(kernels.learn, [wp.float64(self._sampler.cfg.rate)], [self._sums, *self._averages])

    def draw(self, mask: wp.array) -> None:
        """Draws :attr:`clip` and :attr:`frame` in the environments of ``mask`` (N,) wp.bool, from their streams."""
        cfg = self._sampler.cfg
        uniform_share, max_share = wp.float64(cfg.uniform_share), wp.float64(cfg.max_share)
        self._totals.zero_()
        returns, failures, _ = self._averages
        inputs = [self._bins, wp.float64(cfg.failure_weight), returns, failures]
        self._launch(kernels.weigh, inputs, [self._weights, self._totals, self._tree])
        self._launch(kernels.limit, [uniform_share, max_share], [self._weights, self._totals])
        self._launch(kernels.plant, [max_share, self._weights, self._totals], [self._tree])
        wp.launch(
            kernels.draw,
            dim=self._env.num_envs,
            inputs=[mask, self._bins, self._tree],
            outputs=[self._env.warp.rng, self.clip, self.frame],
            device=self._env.wp_device,
        )

    def _launch(self, kernel: Kernel, inputs: list[Any], outputs: list[wp.array]) -> None:
        wp.launch(kernel, dim=self._sampler.num_bins, inputs=inputs, outputs=outputs, device=self._env.wp_device)
