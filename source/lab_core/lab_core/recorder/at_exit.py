"""Closing the recorders that a program forgets to close."""

from __future__ import annotations

import atexit
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab_core.recorder.manager import RecorderManager
    from lab_core.recorder.writer import DatasetWriter

open_recorders: weakref.WeakSet[RecorderManager] = weakref.WeakSet()
open_writers: set[DatasetWriter] = set()
"""Their threads live on where a program drops an environment, and its recorder with it."""


def close_at_exit(recorder: RecorderManager) -> None:
    """Closes ``recorder`` when the program ends, unless it has been taken out of ``open_recorders``."""
    open_recorders.add(recorder)
    _register()


def finish_at_exit(writer: DatasetWriter) -> None:
    """Closes ``writer`` when the program ends, unless it has been taken out of ``open_writers``."""
    open_writers.add(writer)
    _register()


def _register() -> None:
    # Last in, first out: anew after the import of h5py, which shuts itself down at exit.
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def _close_all() -> None:
    with ExitStack() as stack:  # whatever fails, all of them are closed; last in, first out
        for item in (*open_writers, *open_recorders):
            stack.callback(item.close)
