"""How the host learns which episodes have ended, without holding up the device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

TERMINATED, TRUNCATED, SUCCESS, NON_FINITE = (1 << 8 * byte for byte in range(4))
"""Bits of an end code, one in each byte; 0: the episode goes on."""


class CopyEvent:
    """Tells when copies from a device to the host are complete. On a CPU they are when they are made."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._event = torch.cuda.Event() if device.type == "cuda" else None

    def record(self) -> None:
        """Means all copies that have been started, and none that come later."""
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(self._device))

    def arrived(self) -> bool:
        """Returns whether they are complete."""
        return self._event is None or self._event.query()

    def wait(self) -> None:
        """Waits until they are complete."""
        if self._event is not None:
            self._event.synchronize()


class EndMonitor:
    """Copies one number per environment and step to the host and hands it out when it has arrived.

    On a GPU the copy goes to pinned memory, beside the next steps; the host waits only when it is more than ``lag``
    steps ahead of the device.
    """

    def __init__(self, num_envs: int, device: torch.device, lag: int) -> None:
        self.lag = lag
        slots = lag + 1
        with torch.inference_mode(False):
            self._codes = torch.zeros(slots, num_envs, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._events = [CopyEvent(device) for _ in range(slots)]
        self._pushed = self._taken = 0

    @property
    def pushed(self) -> int:
        """Steps given so far."""
        return self._pushed

    def push(self, codes: torch.Tensor) -> None:
        """Takes over the end codes (N,) int32 of a step. What :meth:`take` offers must have been taken before."""
        slot = self._pushed % len(self._codes)
        self._codes[slot].copy_(codes, non_blocking=True)
        self._events[slot].record()
        self._pushed += 1

    def take(self, wait: bool = False) -> Iterator[tuple[int, np.ndarray]]:
        """Yields number and end codes (N,) of the steps that have arrived, in order.

        Args:
            wait: Wait for all steps that were given.
        """
        while self._taken < self._pushed:
            step, slot = self._taken, self._taken % len(self._codes)
            if not self._events[slot].arrived():
                if not wait and self._pushed - self._taken <= self.lag:
                    return
                self._events[slot].wait()
            self._taken += 1
            yield step, self._codes[slot].numpy()
