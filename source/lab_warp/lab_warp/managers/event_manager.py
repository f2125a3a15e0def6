"""Events as Warp code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
import warp as wp

from lab_core.managers import EventManager, EventTermCfg, ManagerTermBase
from lab_warp.managers import kernels
from lab_warp.managers.terms import WarpTerms
from lab_warp.views import share

if TYPE_CHECKING:
    from lab_warp.env import WarpEnv

_RECORDED = ("reset", "interval")


class EventManagerWarp(WarpTerms, EventManager):
    """Applies events. Those of the modes reset and interval are part of the recorded step; others run once, in torch.

    Timers of environments draw from the environments' own random streams, shared ones from the stream of all.
    """

    _env: WarpEnv

    def __init__(self, cfg: Mapping[str, EventTermCfg | None], env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._reset_terms = self._names("reset")
        intervals = self._names("interval")
        self._own = [name for name in intervals if not self._cfgs[name].is_global_time]
        self._shared = [name for name in intervals if self._cfgs[name].is_global_time]

        def rows(names: list[str], width: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(max(len(names), 1), width, dtype=dtype, device=self.device)

        self._due = rows(self._reset_terms, self.num_envs, torch.bool)
        self._last_steps = rows(self._reset_terms, self.num_envs, torch.int64)
        self._min_steps = torch.zeros(len(self._reset_terms), dtype=torch.int64, device=self.device)
        self._timers = rows(self._own, self.num_envs, torch.float32)
        self._expired = rows(self._own, self.num_envs, torch.bool)
        self._shared_timers = rows(self._shared, 1, torch.float32)
        self._shared_expired = rows(self._shared, 1, torch.bool)
        self._spread = rows(self._shared, self.num_envs, torch.bool)
        self._ranges = torch.zeros(len(self._own), 2, device=self.device)
        self._shared_ranges = torch.zeros(len(self._shared), 2, device=self.device)
        self._redrawn = torch.zeros(len(self._own), dtype=torch.bool, device=self.device)
        for row, name in enumerate(self._reset_terms):
            self._last_steps[row].copy_(self._last_step[name])
            self._last_step[name] = self._last_steps[row]
        for names, timers in ((self._own, self._timers), (self._shared, self._shared_timers)):
            for row, name in enumerate(names):
                timers[row].copy_(self._time_left[name])
                self._time_left[name] = timers[row]
        self.warp = share(self, ("_due", "_last_steps", "_min_steps", "_timers", "_expired", "_redrawn"))
        for name in ("_shared_timers", "_shared_expired"):
            setattr(self.warp, name.lstrip("_"), wp.from_torch(getattr(self, name)))
        for name in ("_ranges", "_shared_ranges"):
            setattr(self.warp, name.lstrip("_"), wp.from_torch(getattr(self, name), dtype=wp.vec2))
        self._masks: dict[str, tuple[wp.array, torch.Tensor]] = {}
        """Term -> environments that it acts on now, in Warp and in torch."""
        for names, masks in (
            (self._reset_terms, self._due),
            (self._own, self._expired),
            (self._shared, self._spread),
        ):
            self._masks |= {name: (wp.from_torch(mask), mask) for name, mask in zip(names, masks, strict=False)}
        self._copied: tuple[list[Any], ...] = ()
        self._fix_terms()
        self.copy_settings()

    _state_exclude = (
        *("_due", "_last_steps", "_min_steps", "_timers", "_expired", "_shared_timers", "_shared_expired"),
        *("_spread", "_ranges", "_shared_ranges", "_redrawn", "_masks", "_copied"),
    )

    def copy_settings(self) -> None:
        """Hands changed intervals and pauses to the device; called between steps."""
        cfgs = self._cfgs
        settings = (
            [cfgs[name].min_step_count_between_reset for name in self._reset_terms],
            [cfgs[name].resample_interval_on_reset for name in self._own],
            *([tuple(cfgs[name].interval_range_s or ()) for name in names] for names in (self._own, self._shared)),
        )
        if settings == self._copied:
            return
        buffers = (self._min_steps, self._redrawn, self._ranges, self._shared_ranges)
        for buffer, values in zip(buffers, settings, strict=True):
            if values:
                buffer.copy_(torch.tensor(values, dtype=buffer.dtype))
        self._copied = settings

    def apply_reset(self) -> None:
        """Applies the reset terms to the environments that are being reset."""
        if not self._reset_terms:
            return
        shared = self._env.warp
        wp.launch(
            kernels.choose_due,
            dim=(len(self._reset_terms), self.num_envs),
            inputs=[shared.reset_mask, shared.step_count, self.warp.min_steps],
            outputs=[self.warp.last_steps, self.warp.due],
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
                inputs=[dt, self.warp.ranges],
                outputs=[rng.state, self.warp.timers, self.warp.expired],
                device=device,
            )
        if self._shared:
            wp.launch(
                kernels.tick_timers,
                dim=1,
                inputs=[dt, self.warp.shared_ranges],
                outputs=[rng.global_state, self.warp.shared_timers, self.warp.shared_expired],
                device=device,
            )
            for row, name in enumerate(self._shared):
                wp.launch(
                    kernels.spread,
                    dim=self.num_envs,
                    inputs=[self.warp.shared_expired[row]],
                    outputs=[self._masks[name][0]],
                    device=device,
                )
        self._apply_all(self._names("interval"))

    def reset_masked(self) -> None:
        """Tells class terms about the reset and draws the timers of the environments that are being reset."""
        if self._own:
            wp.launch(
                kernels.draw_timers,
                dim=self.num_envs,
                inputs=[self._env.warp.reset_mask, self.warp.redrawn, self.warp.ranges],
                outputs=[self._env.rng.state, self.warp.timers],
                device=self._env.wp_device,
            )
        self._reset_class_terms()

    @property
    def recordable(self) -> bool:
        """Whether all reset terms can be recorded."""
        return all(self._is_recordable(name) for name in self._reset_terms)

    def _apply_all(self, names: list[str]) -> None:
        for name in names:
            mask, torch_mask = self._masks[name]
            self._call_twin(name, (mask,), (torch_mask,))

    def _call_torch(self, name: str, mask: torch.Tensor, /) -> None:
        self._call(name, mask)

    def _term_class(self, cfg: EventTermCfg) -> type[ManagerTermBase]:
        return super()._term_class(cfg) if cfg.mode in _RECORDED else cfg.func  # pyright: ignore[reportReturnType]

    def _recorded_settings(self, cfg: EventTermCfg) -> tuple[Any, ...]:
        return (*super()._recorded_settings(cfg), cfg.mode)
