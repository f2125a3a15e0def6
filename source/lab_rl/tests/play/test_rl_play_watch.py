"""Watching in real time: pace, pause and single steps."""

from __future__ import annotations

import pytest
import torch

from lab_core.testing import analytic_cartpole_env_cfg
from lab_rl.play.watch import Pace, watch


class FakeClock:
    """Time that passes only when somebody sleeps or works."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0.0
        self.now += seconds


def speed(work: float, steps: int = 100) -> tuple[float, Pace]:
    """Simulated time per time with steps of 20 ms that take ``work`` seconds to compute, and what held them back."""
    clock = FakeClock()
    pace = Pace(0.02, clock)
    for _ in range(steps):
        clock.now += work
        pace.wait()
    return steps * 0.02 / (clock.now - 100.0), pace


def test_quick_steps_are_held_back_to_real_time():
    factor, pace = speed(work=0.005)
    assert factor == pytest.approx(1.0) and pace.factor == pytest.approx(1.0)
    assert pace.describe() == "1.00 x real time"


def test_slow_steps_run_as_fast_as_they_can_and_say_so():
    factor, pace = speed(work=0.04)
    assert factor == pytest.approx(0.5) and pace.factor == pytest.approx(0.5)
    assert pace.describe() == "0.50 x real time"


def test_late_steps_are_not_made_up_for():
    clock = FakeClock()
    pace = Pace(0.02, clock)
    clock.now += 3.0  # a step that compiles
    pace.wait()
    before = clock.now
    pace.wait()
    assert clock.now - before == pytest.approx(0.02)


def test_a_break_is_no_slowness():
    clock = FakeClock()
    pace = Pace(0.02, clock)
    assert pace.describe() == ""
    for _ in range(30):
        pace.wait()
    clock.now += 60.0
    pace.restart()
    for _ in range(30):
        pace.wait()
    assert pace.factor == pytest.approx(1.0)


class ScriptedViewer:
    """Allows steps by a list, one entry per question."""

    url = ""

    def __init__(self, allowed: list[bool]) -> None:
        self.allowed = allowed
        self.shown: list[str] = []

    def should_step(self) -> bool:
        return self.allowed.pop(0)

    def update(self, status: str = "") -> None:
        self.shown.append(status)

    def close(self) -> None:
        pass


def test_a_pause_stops_the_steps_and_not_the_page():
    env = analytic_cartpole_env_cfg(num_envs=2).build()
    steps_before = []

    def policy() -> torch.Tensor:
        steps_before.append(env.step_count)
        return torch.zeros(2, 1)

    viewer = ScriptedViewer([False, False, True, False, True, True, True])
    watch(env, policy, viewer, steps=4)
    assert steps_before == [0, 1, 2, 3] and viewer.allowed == []
    assert viewer.shown.count("Paused") == 3  # the page is alive, and shows the single step
    assert len(viewer.shown) == 3 + 2  # every other of the 60 steps per second


def test_observations_stay_usable_outside():
    env = analytic_cartpole_env_cfg(num_envs=2).build()
    watch(env, lambda: torch.zeros(2, 1), ScriptedViewer([True] * 2), steps=2)
    env.step(torch.zeros(2, 1))
