"""Where the time of an iteration goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lab_core.rollouts import synchronize


class IterationClock:
    """Splits an iteration into parts that follow each other, and says how much of it Python waited for the device.

    The device is waited for once, where the clock starts, so that no work of before counts. A part ends where its
    results have been read, within :meth:`waiting`: only then has the device done it.

    Args:
        device: What computes.
    """

    def __init__(self, device: torch.device) -> None:
        synchronize(device)
        self._last = time.perf_counter()
        self._waited = 0.0
        self._parts: dict[str, float] = {}

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a read that waits for the device."""
        before = time.perf_counter()
        yield
        self._waited += time.perf_counter() - before

    def end(self, part: str) -> None:
        """Ends a part, which began where the one before ended."""
        now = time.perf_counter()
        self._parts[part] = now - self._last
        self._last = now

    @property
    def seconds(self) -> float:
        """All parts so far [s]."""
        return sum(self._parts.values())

    def scalars(self) -> dict[str, float]:
        """Returns ``Perf/<part>_time`` of each part, and ``Perf/waiting_time``, which lies within them [s]."""
        times = {f"Perf/{part}_time": seconds for part, seconds in self._parts.items()}
        return times | {"Perf/waiting_time": self._waited}
