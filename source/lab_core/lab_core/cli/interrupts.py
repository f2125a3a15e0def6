"""Ctrl-C that no callback can swallow."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_AGAIN_AFTER_S = 0.02
"""How long a lost interrupt waits before it is raised again [s]: the callback that swallowed it must have ended."""


@contextmanager
def lasting_interrupts() -> Iterator[None]:
    """Inside, a Ctrl-C is raised again until it ends what is running.

    Python discards an exception that is raised in a callback of a library in C, in a destructor or in a weak
    reference's callback ("Exception ignored in ..."), ``KeyboardInterrupt`` too. Loading libraries and compiling
    kernels run many of these.
    """
    if threading.current_thread() is not threading.main_thread():  # where no interrupt is raised
        yield
        return
    report = sys.unraisablehook
    waiting: list[threading.Timer] = []

    def interrupt() -> None:
        waiting.clear()
        _thread.interrupt_main()

    def raise_again(lost: Any) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            report(lost)
        elif not waiting:  # one is enough, however many were lost
            timer = threading.Timer(_AGAIN_AFTER_S, interrupt)
            timer.daemon = True
            waiting.append(timer)
            timer.start()

    sys.unraisablehook = raise_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        for timer in list(waiting):  # nothing is interrupted that comes later
            timer.cancel()
