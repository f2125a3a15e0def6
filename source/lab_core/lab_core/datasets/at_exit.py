"""Closing what a program forgets to close."""

from __future__ import annotations

import atexit
import weakref
from contextlib import ExitStack
from typing import Protocol


class Closable(Protocol):
    """Something that has to be closed for its work to be complete."""

    def close(self) -> None:
        """Finishes the work."""


_held: set[Closable] = set()
_watched: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(item: Closable, hold: bool = False) -> None:
    """Closes ``item`` when the program ends, unless :func:`forget` is called or it is freed before.

    Args:
        item: What to close.
        hold: Keeps it alive until then, for what has a thread that lives on where a program drops it.
    """
    (_held if hold else _watched).add(item)
    # Last in, first out: anew after the import of h5py, which shuts itself down at exit.
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def forget(item: Closable) -> None:
    """Takes back :func:`close_at_exit`: ``item`` is closed."""
    _held.discard(item)
    _watched.discard(item)


def _close_all() -> None:
    with ExitStack() as stack:  # whatever fails, all of them are closed; last in, first out
        for item in (*_held, *_watched):
            stack.callback(item.close)
