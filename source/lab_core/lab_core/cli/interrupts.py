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

    def raise_again(lost: Any) -> None:
        if isinstance(lost.exc_value, KeyboardInterrupt):
            timer = threading.Timer(_AGAIN_AFTER_S, _thread.interrupt_main)
            timer.daemon = True
            timer.start()
        else:
            report(lost)

    sys.unraisablehook = raise_again
    try:
        yield
    finally:
        sys.unraisablehook = report
