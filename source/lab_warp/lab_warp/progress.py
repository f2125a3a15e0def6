"""A word to the user while kernels compile.

Warp compiles a kernel module when a kernel of it is first launched and keeps the result in its cache, so that this
happens once on a machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType

import warp as wp


@contextmanager
def quiet_warp() -> Iterator[None]:
    """Keeps Warp from printing a banner and a line per kernel module, unless it was told to be more talkative."""
    level = wp.config.log_level
    if level == wp.LOG_INFO:
        wp.config.log_level = wp.LOG_WARNING
    try:
        yield
    finally:
        wp.config.log_level = level


def start_warp() -> None:
    """Starts Warp without a word where there is nothing to say: a machine without a GPU needs no driver for one."""
    with quiet_warp(), nullcontext() if _has_gpu() else _without_driver_warning():
        wp.init()


def _has_gpu() -> bool:
    """Whether the system shows an NVIDIA GPU, with or without a driver that works."""
    return any(Path(place).exists() for place in ("/dev/nvidiactl", "/dev/dxg", "/proc/driver/nvidia"))


@contextmanager
def _without_driver_warning() -> Iterator[None]:
    """Keeps one line from standard error, which Warp's library writes before it can be told not to."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            for line in caught:
                if b"NVIDIA CUDA driver" not in line:
                    os.write(2, line)


class Progress:
    """One line on stderr, about something that is only worth mentioning when it takes long.

    Args:
        title: What is going on.
        quiet_for: Seconds before the line appears.
        interval: Seconds between updates of the time.
    """

    def __init__(self, title: str, *, quiet_for: float = 5.0, interval: float = 1.0) -> None:
        self._title = title
        self._text = "starting"
        self._quiet_for = quiet_for
        self._interval = interval
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._shown = False

    def show(self, text: str) -> None:
        """Sets what is behind the title at the next update."""
        self._text = text

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._ticker.join()
        if self._shown:
            self._write("failed" if error else "done", last=True)

    def _tick(self) -> None:
        # Without a terminal a line is not overwritten, so give few of them.
        interval = self._interval if sys.stderr.isatty() else 10 * self._interval
        wait = self._quiet_for
        while not self._stop.wait(wait):
            self._write(self._text)
            wait = interval

    def _write(self, text: str, last: bool = False) -> None:
        self._shown = True
        line = f"{self._title}: {text}, {time.monotonic() - self._start:.0f} s"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{line}" + ("\n" if last else ""))
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
