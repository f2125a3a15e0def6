"""How the host learns which episodes have ended, without holding up the device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

TERMINATED, TRUNCATED, SUCCESS, NON_FINITE = (1 << 8 * byte for byte in range(4))
"""Bits of an end code, one in each byte; 0: the episode goes on."""


class EndMonitor:
    """Copies one number per world and step to pinned host memory and hands it out some steps later.

    On a GPU the copy runs beside the next steps; the host waits only when it is more than ``lag`` steps ahead of the
    device. On a CPU every step is known at once.
    """

    def __init__(self, num_envs: int, device: torch.device, lag: int) -> None:
        self.lag = lag if device.type == "cuda" else 0
        slots = self.lag + 1
        with torch.inference_mode(False):
            self._codes = torch.zeros(slots, num_envs, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._events = [torch.cuda.Event() for _ in range(slots)] if device.type == "cuda" else []
        self._device = device
        self._pushed = self._taken = 0

    @property
    def pushed(self) -> int:
        """Steps given so far."""
        return self._pushed

    def push(self, codes: torch.Tensor) -> None:
        """Takes over the end codes (N,) int32 of a step. What :meth:`take` offers must have been taken before."""
        slot = self._pushed % len(self._codes)
        self._codes[slot].copy_(codes, non_blocking=True)
        if self._events:
            self._events[slot].record(torch.cuda.current_stream(self._device))
        self._pushed += 1

    def take(self, wait: bool = False) -> Iterator[tuple[int, np.ndarray]]:
        """Yields number and end codes (N,) of the steps that have arrived, in order.

        Args:
            wait: Wait for all steps that were given.
        """
        while self._taken < self._pushed:
            step, slot = self._taken, self._taken % len(self._codes)
            if self._events and not self._events[slot].query():
                if not wait and self._pushed - self._taken <= self.lag:
                    return
                self._events[slot].synchronize()
            self._taken += 1
            yield step, self._codes[slot].numpy()
