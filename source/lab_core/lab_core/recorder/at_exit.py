"""Closing the recorders that a program forgets to close."""

from __future__ import annotations

import atexit
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab_core.recorder.manager import RecorderManager

open_recorders: weakref.WeakSet[RecorderManager] = weakref.WeakSet()


def close_at_exit(recorder: RecorderManager) -> None:
    """Closes ``recorder`` when the program ends, unless it has been taken out of ``open_recorders``."""
    open_recorders.add(recorder)
    # Last in, first out: anew after the import of h5py, which shuts itself down at exit.
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def _close_all() -> None:
    with ExitStack() as stack:  # whatever fails, all of them are closed
        for recorder in list(open_recorders):
            stack.callback(recorder.close)
