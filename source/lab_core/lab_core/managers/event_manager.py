"""Events: changes to the environments at start-up, at resets and from time to time."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers.checks import check_range
from lab_core.managers.errors import TermError
from lab_core.managers.function_terms import FunctionTerms, TermCfg, TorchTerms
from lab_core.managers.manager_base import function_name
from lab_core.managers.timers import ran_out
from lab_core.masks import masked_copy_
from lab_core.sampling import uniform

EventMode = Literal["prestartup", "startup", "reset", "interval"]
_NEVER = -1


@dataclass(kw_only=True)
class EventTermCfg(TermCfg):
    """``func(env, mask, **params)`` acts on the environments of ``mask`` (N,) bool."""

    mode: EventMode = "reset"
    """prestartup: once, before the other managers exist; startup: once, after all is built; reset: at every reset;
    interval: each time that a timer runs out."""
    interval_range_s: tuple[float, float] | None = None
    """Interval mode: the timer is drawn uniformly from this range [s]."""
    is_global_time: bool = False
    """Interval mode: one timer for all environments, which resets leave alone."""
    resample_interval_on_reset: bool = True
    """Interval mode: a reset draws the timers of its environments anew. An interval that is not much shorter than the
    episode then fires less often than its range says."""
    min_step_count_between_reset: int = 0
    """Reset mode: steps that must have passed in an environment since the term last acted on it."""


class EventTerms(FunctionTerms[EventTermCfg]):
    """Holds the terms of all modes with their timers, in all front ends."""

    kind = "event"
    cfg_type = EventTermCfg
    leading = ("env", "mask")

    def __init__(self, cfg: Mapping[str, EventTermCfg | None], env: Env) -> None:
        self._fixed: dict[str, tuple[EventMode, bool]] = {}
        """Term -> mode and kind of timer, which the buffers below are made for."""
        super().__init__(cfg, env)
        self._all = self.scratch(torch.ones(self.num_envs, dtype=torch.bool, device=self.device))
        self._time_left: dict[str, torch.Tensor] = {}
        """Interval term -> (N,), or (1,) for a global timer [s]."""
        self._last_step: dict[str, torch.Tensor] = {}
        """Reset term -> (N,) int64 step at which it last acted."""
        self._intervals: dict[str, tuple[float, float] | None] = {}
        """Interval term -> range that its timers were drawn from."""
        for name, term in self._cfgs.items():
            self._fixed[name] = (term.mode, term.is_global_time)
            if term.mode == "interval":
                self._intervals[name] = term.interval_range_s
                self._time_left[name] = self._draw_interval(term)
            elif term.mode == "reset":
                self._last_step[name] = torch.full((self.num_envs,), _NEVER, dtype=torch.int64, device=self.device)

    def has_mode(self, mode: EventMode) -> bool:
        """Whether any term has this mode."""
        return bool(self._names(mode))

    def set_term_cfg(self, name: str, cfg: EventTermCfg) -> None:
        """As for every manager; the mode and the kind of timer are fixed. A new interval range draws new timers."""
        super().set_term_cfg(name, cfg)
        new = self._cfgs[name]
        if new.mode == "interval" and new.interval_range_s != self._intervals[name]:
            self._intervals[name] = new.interval_range_s
            self._time_left[name].copy_(self._draw_interval(new))

    def _names(self, mode: str) -> list[str]:
        return [name for name, cfg in self._cfgs.items() if cfg.mode == mode]

    def _draw_interval(self, cfg: EventTermCfg) -> torch.Tensor:
        assert cfg.interval_range_s is not None
        size = 1 if cfg.is_global_time else self.num_envs
        return uniform(*cfg.interval_range_s, (size,), self._env.generator)

    def _check_cfg(self, name: str, cfg: EventTermCfg) -> None:
        what = self._what(name)
        if cfg.mode not in get_args(EventMode):
            raise TermError(f"{what}: {unknown_name_message('mode', str(cfg.mode), get_args(EventMode))}")
        if self._fixed.get(name, (cfg.mode, cfg.is_global_time)) != (cfg.mode, cfg.is_global_time):
            raise TermError(f"{what}: mode and is_global_time cannot change while the environment runs.")
        if cfg.min_step_count_between_reset < 0:
            raise TermError(
                f"{what}: min_step_count_between_reset must not be negative, got {cfg.min_step_count_between_reset}."
            )
        for buffer in getattr(cfg.func, "writes", ()):
            if buffer in self._env.physics.ignored_buffers:
                raise TermError(
                    f"{what} ({function_name(cfg.func)}) writes {buffer}, which has no effect in these physics, "
                    f"{self._env.physics.description}. Set the event to None, or choose another solver."
                )
        if cfg.mode != "interval":
            return
        check_range(cfg.interval_range_s, f"{what}: interval_range_s")
        assert cfg.interval_range_s is not None
        low, _ = cfg.interval_range_s
        if low < 0.0:
            raise TermError(f"{what}: interval_range_s must not be negative, got {cfg.interval_range_s}.")
        redrawn = cfg.resample_interval_on_reset and not cfg.is_global_time
        if redrawn and low > self._env.max_episode_length_s:
            warnings.warn(
                f"{what} never acts: its shortest interval, {low} s, is longer than an episode, "
                f"{self._env.max_episode_length_s} s. Set resample_interval_on_reset=False to keep its timer running.",
                stacklevel=2,
            )

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [
            [name, function_name(cfg.func), cfg.mode, cfg.interval_range_s or "", cfg.min_step_count_between_reset]
            for name, cfg in self._cfgs.items()
        ]
        return ["name", "function", "mode", "interval [s]", "min steps"], rows


class EventManager(EventTerms, TorchTerms[EventTermCfg]):
    """Applies the terms of a mode in their order.

    Terms of the modes reset and interval are called with masks that may be empty: knowing better would mean waiting
    for the device.
    """

    def apply(
        self,
        mode: EventMode,
        mask: torch.Tensor | None = None,
        dt: float | None = None,
        step_count: int | None = None,
    ) -> None:
        """Applies the terms of ``mode``.

        Args:
            mode: Which terms.
            mask: Environments (N,) bool; None: all. Not for interval terms, whose timers decide.
            dt: Time since the last call [s]; interval mode only, and needed there.
            step_count: Steps that the environment has made; needed in reset mode.

        Raises:
            ValueError: the mode is unknown, or an argument is missing or does not belong to the mode.
        """
        if mode not in get_args(EventMode):
            raise ValueError(unknown_name_message("event mode", mode, get_args(EventMode)))
        if mode == "interval":
            if mask is not None:
                raise ValueError("Interval events take no mask: their timers choose the environments.")
            if dt is None:
                raise ValueError("Interval events need dt, the time since the last call [s].")
            self._apply_interval(dt)
            return
        mask = self._all if mask is None else mask
        if mode == "reset":
            if step_count is None:
                raise ValueError("Reset events need step_count.")
            self._apply_reset(mask, step_count)
            return
        for name in self._names(mode):
            self._call(name, mask)

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        super().reset(mask)
        for name, time_left in self._time_left.items():
            cfg = self._cfgs[name]
            if cfg.resample_interval_on_reset and not cfg.is_global_time:
                masked_copy_(time_left, self._draw_interval(cfg), mask)
        return {}

    def _apply_interval(self, dt: float) -> None:
        for name in self._names("interval"):
            time_left = self._time_left[name]
            time_left.sub_(dt)
            expired = ran_out(time_left, dt)
            masked_copy_(time_left, self._draw_interval(self._cfgs[name]), expired)
            self._call(name, expired & self._all)  # (1,) of a global timer becomes (N,)

    def _apply_reset(self, mask: torch.Tensor, step: int) -> None:
        for name in self._names("reset"):
            last_step, pause = self._last_step[name], self._cfgs[name].min_step_count_between_reset
            due = mask
            if pause > 0:
                due = mask & ((last_step == _NEVER) | (step - last_step >= pause))
            masked_copy_(last_step, step, due)
            self._call(name, due)
