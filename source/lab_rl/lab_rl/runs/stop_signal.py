"""Ctrl-C as a wish to stop, not as an accident."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self


class StopSignal:
    """Within the context, the first Ctrl-C (or SIGTERM) only sets ``requested``; the second one interrupts as usual.

    Args:
        notify: Called at the first one.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self.requested = False
        self._notify = notify
        self._previous: dict[signal.Signals, signal.Handlers | Callable | int | None] = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._notify()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # handlers can be set nowhere else
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
