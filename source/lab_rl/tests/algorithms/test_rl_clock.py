"""The clock of an iteration, on a clock that stands still unless told."""

from __future__ import annotations

import time

import pytest
import torch

from lab_rl.algorithms import clock


@pytest.fixture
def passes(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def seconds(count: float) -> None:
        now[0] += count

    return seconds


def test_parts_follow_each_other_and_waiting_lies_within_them(passes):
    timer = clock.IterationClock(torch.device("cpu"))
    passes(2.0)
    with timer.waiting():
        passes(0.5)
    timer.end("collection")
    passes(1.0)
    with timer.waiting():
        passes(0.25)
    timer.end("learning")
    passes(8.0)
    assert timer.seconds == 3.75
    assert timer.scalars() == {
        "Perf/collection_time": 2.5,
        "Perf/learning_time": 1.25,
        "Perf/waiting_time": 0.75,
    }


def test_the_device_is_waited_for_once_before_the_clock_starts(passes, monkeypatch):
    waits = []
    monkeypatch.setattr(clock, "synchronize", lambda device: waits.append(device) or passes(3.0))
    timer = clock.IterationClock(torch.device("cpu"))
    passes(1.0)
    timer.end("collection")
    assert (timer.seconds, waits) == (1.0, [torch.device("cpu")])
