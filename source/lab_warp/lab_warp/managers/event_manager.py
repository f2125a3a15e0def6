"""Events as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
import warp as wp

from lab_core.capability import Capability, all_capable
from lab_core.managers import EventTermCfg, EventTerms, ManagerTermBase
from lab_warp.env import WarpEnv
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.views import Shared, shared

_CAPTURED = ("reset", "interval")


class EventManagerWarp(WarpTerms, EventTerms):
    """Applies events. Those of the modes reset and interval are part of the captured step; others run once, in torch.

    Timers of environments draw from the environments' own random streams, shared ones from the stream of all.
    """

    def __init__(self, cfg: Mapping[str, EventTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._reset_terms = self._names("reset")
        intervals = self._names("interval")
        self._own = [name for name in intervals if not self._cfgs[name].is_global_time]
        self._global = [name for name in intervals if self._cfgs[name].is_global_time]

        def zeros(*size: int, dtype: torch.dtype = torch.float32, warp: Any = None) -> Shared:
            return self.scratch(shared(torch.zeros(*size, dtype=dtype, device=self.device), warp))

        def rows(names: list[str], width: int, dtype: torch.dtype) -> Shared:
            return zeros(max(len(names), 1), width, dtype=dtype)

        self._due = rows(self._reset_terms, self.num_envs, torch.bool)
        self._last_steps = rows(self._reset_terms, self.num_envs, torch.int64)
        self._min_steps = zeros(len(self._reset_terms), dtype=torch.int64)
        self._timers = rows(self._own, self.num_envs, torch.float32)
        self._expired = rows(self._own, self.num_envs, torch.bool)
        self._global_timers = rows(self._global, 1, torch.float32)
        self._global_expired = rows(self._global, 1, torch.bool)
        self._spread = rows(self._global, self.num_envs, torch.bool)
        self._ranges = zeros(len(self._own), 2, warp=wp.vec2)
        self._global_ranges = zeros(len(self._global), 2, warp=wp.vec2)
        self._redrawn = zeros(len(self._own), dtype=torch.bool)
        # The state of each term becomes a row of the buffers.
        for state, names, buffer in (
            (self._last_step, self._reset_terms, self._last_steps),
            (self._time_left, self._own, self._timers),
            (self._time_left, self._global, self._global_timers),
        ):
            for row, name in zip(buffer.torch, names, strict=False):
                row.copy_(state[name])
                state[name] = row
        self._masks: dict[str, Shared] = self.scratch({})
        """Term -> environments that it acts on now."""
        for names, masks in ((self._reset_terms, self._due), (self._own, self._expired), (self._global, self._spread)):
            self._masks |= {name: shared(mask) for name, mask in zip(names, masks.torch, strict=False)}
        self._copied: tuple[list[Any], ...] = ()
        self._fix_terms()
        self.copy_settings()

    def copy_settings(self) -> None:
        """Hands changed intervals and pauses to the device; called between steps."""
        cfgs = self._cfgs
        settings = (
            [cfgs[name].min_step_count_between_reset for name in self._reset_terms],
            [cfgs[name].resample_interval_on_reset for name in self._own],
            *([tuple(cfgs[name].interval_range_s or ()) for name in names] for names in (self._own, self._global)),
        )
        if settings == self._copied:
            return
        buffers = (self._min_steps, self._redrawn, self._ranges, self._global_ranges)
        for buffer, values in zip(buffers, settings, strict=True):
            if values:
                buffer.torch.copy_(torch.tensor(values, dtype=buffer.torch.dtype))
        self._copied = settings

    def apply(self, mode: Literal["prestartup", "startup"]) -> None:
        """Applies the terms of a mode that belongs to no step, to all environments, in torch.

        Raises:
            ValueError: the mode belongs to the step; see :meth:`apply_reset` and :meth:`apply_interval`.
        """
        if mode in _CAPTURED:
            raise ValueError(f"Events of the mode {mode!r} are part of the captured step: use apply_{mode}.")
        for name in self._names(mode):
            self._call(name, self._all)

    def apply_reset(self, mask: Shared) -> None:
        """Applies the reset terms to the environments of ``mask``."""
        if not self._reset_terms:
            return
        wp.launch(
            kernels.choose_due,
            dim=(len(self._reset_terms), self.num_envs),
            inputs=[mask.warp, self._env.warp.step_count, self._min_steps.warp],
            outputs=[self._last_steps.warp, self._due.warp],
            device=self._env.wp_device,
        )
        self._apply_all(self._reset_terms)

    def apply_interval(self, dt: float) -> None:
        """Moves the timers on by ``dt`` seconds and applies the terms whose time has come."""
        device, rng = self._env.wp_device, self._env.rng
        if self._own:
            wp.launch(
                kernels.tick_timers,
                dim=self.num_envs,
                inputs=[dt, self._ranges.warp],
                outputs=[rng.state, self._timers.warp, self._expired.warp],
                device=device,
            )
        if self._global:
            wp.launch(
                kernels.tick_timers,
                dim=1,
                inputs=[dt, self._global_ranges.warp],
                outputs=[rng.global_state, self._global_timers.warp, self._global_expired.warp],
                device=device,
            )
            for row, name in enumerate(self._global):
                wp.launch(
                    kernels.spread,
                    dim=self.num_envs,
                    inputs=[self._global_expired.warp[row]],
                    outputs=[self._masks[name].warp],
                    device=device,
                )
        self._apply_all(self._names("interval"))

    def reset(self, mask: Shared) -> None:
        """Tells class terms about the reset and draws the timers of the environments in ``mask``."""
        if self._own:
            wp.launch(
                kernels.draw_timers,
                dim=self.num_envs,
                inputs=[mask.warp, self._redrawn.warp, self._ranges.warp],
                outputs=[self._env.rng.state, self._timers.warp],
                device=self._env.wp_device,
            )
        self._reset_class_terms(mask)

    @property
    def capturable(self) -> Capability:
        return all_capable([super().capturable, *(self._capability(name) for name in self._reset_terms)])

    def _apply_all(self, names: list[str]) -> None:
        for name in names:
            mask = self._masks[name]
            self._call_twin(name, (mask.warp,), (mask.torch,))

    def _call_torch(self, name: str, mask: torch.Tensor, /) -> None:
        self._call(name, mask)

    def _term_class(self, cfg: EventTermCfg) -> type[ManagerTermBase]:
        return super()._term_class(cfg) if cfg.mode in _CAPTURED else cfg.func  # pyright: ignore[reportReturnType]

    def _captured_settings(self, cfg: EventTermCfg) -> tuple[Any, ...]:
        return (*super()._captured_settings(cfg), cfg.mode)
