"""Where the time of an iteration goes on the device."""

from __future__ import annotations

import sys
import time
from collections import defaultdict

import torch


class PhaseClock:
    """Adds up the time of phases that follow each other, without waiting for the device.

    On a GPU that is the time in which the device got to the end of what it was handed in a phase, on other devices that
    of the host.

    Args:
        device: What computes.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_cuda = device.type == "cuda"
        self._marks = [("", self._now())]

    def mark(self, phase: str) -> None:
        """Ends a phase, which began where the one before ended."""
        self._marks.append((phase, self._now()))

    def scalars(self) -> dict[str, float]:
        """Returns ``Perf/<phase>_time`` [s]; the device must have come to the last mark."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for (_, start), (phase, end) in zip(self._marks[:-1], self._marks[1:], strict=True):
            seconds[f"Perf/{phase}_time"] += _between(start, end)
        return dict(seconds)

    def _now(self) -> float | torch.cuda.Event:
        if not self._is_cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


class StartNotes:
    """Says on stderr what the first iteration is at, which makes kernels and graphs: a line when a part begins, and the
    seconds until then. It waits for the device; after :meth:`end` it does nothing.

    Args:
        device: What computes.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._start: float | None = None
        self._ended = False

    def begin(self, part: str) -> None:
        """Begins a part, and so ends the one before."""
        if self._ended:
            return
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter()
        if self._start is None:
            self._start = now
        print(f"First iteration, {now - self._start:.1f} s: {part}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the last part."""
        self.begin("done")
        self._ended = True


def _between(start: float | torch.cuda.Event, end: float | torch.cuda.Event) -> float:
    if isinstance(start, torch.cuda.Event):
        assert isinstance(end, torch.cuda.Event)
        return start.elapsed_time(end) * 1e-3
    assert not isinstance(end, torch.cuda.Event)
    return end - start
