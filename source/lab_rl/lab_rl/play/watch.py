"""A policy at work in front of somebody who watches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import torch

from lab_core.envs import RLEnv
from lab_core.physics import Viewer
from lab_rl.play.video import MAX_FPS


def watch(env: RLEnv, policy: Callable[[], torch.Tensor], viewer: Viewer, steps: int | None = None) -> None:
    """Steps ``env`` in real time with the actions (N, A) of ``policy``, as far as ``viewer`` does not pause it.

    Args:
        steps: Number of environment steps to make; None: no end.
    """
    pace = Pace(env.step_dt)
    stride = max(1, round(1.0 / (MAX_FPS * env.step_dt)))
    step = 0
    with torch.inference_mode():
        while steps is None or step < steps:
            if not viewer.should_step():
                viewer.update("Paused")
                time.sleep(1.0 / MAX_FPS)
                pace.restart()
                continue
            env.step(policy())
            step += 1
            if step % stride == 0:
                viewer.update(pace.describe())
            pace.wait()


class Clock(Protocol):
    """What :class:`Pace` needs of the module ``time``."""

    def perf_counter(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class Pace:
    """Holds steps of ``step_dt`` seconds back to real time, and measures how far they reach it."""

    _WINDOW = 0.5
    """Time over which the speed is measured [s]."""

    def __init__(self, step_dt: float, clock: Clock = time) -> None:
        self._step_dt = step_dt
        self._clock = clock
        self.factor: float | None = None
        """Simulated time per time; None until it is measured."""
        self.restart()

    def restart(self) -> None:
        """Begins anew after a break."""
        self._due = self._measured_at = self._clock.perf_counter()
        self._steps = 0

    def wait(self) -> None:
        """Waits until the step that was just made is due. Late steps are not made up for."""
        now = self._clock.perf_counter()
        self._due = max(self._due + self._step_dt, now)
        self._clock.sleep(self._due - now)
        self._steps += 1
        elapsed = self._due - self._measured_at
        if elapsed >= self._WINDOW:
            self.factor = self._steps * self._step_dt / elapsed
            self._measured_at, self._steps = self._due, 0

    def describe(self) -> str:
        """The factor in words."""
        return "" if self.factor is None else f"{self.factor:.2f} x real time"
