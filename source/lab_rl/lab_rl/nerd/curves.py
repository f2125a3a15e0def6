"""Curves of a fit in its run folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from lab_rl.runs.folder import RunFolder
from lab_rl.runs.progress import ProgressFile
from lab_rl.runs.tensorboard import EventFile


class FitCurves:
    """Rows of ``progress.jsonl`` and TensorBoard events, within its context.

    Args:
        run: Where they go.
        start: Update that the fit goes on from; rows beyond it go away.
        writes: False: nothing is written, another process does.
    """

    def __init__(self, run: RunFolder, start: int, writes: bool) -> None:
        self._progress = ProgressFile(run.progress, start) if writes else None
        self._events = EventFile(run.path, start) if writes else None
        self._began = time.perf_counter() - (self._progress.elapsed if self._progress else 0.0)

    @property
    def elapsed(self) -> float:
        """Duration of the fit [s], with that of what it goes on from."""
        return time.perf_counter() - self._began

    def add(self, update: int, scalars: Mapping[str, float]) -> None:
        """Adds a row for ``update``."""
        if self._progress is not None and self._events is not None:
            self._progress.add({"iteration": update, "elapsed_s": round(self.elapsed, 3), **scalars})
            self._events.add(update, scalars)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None and self._events is not None:
            self._progress.close()
            self._events.close()
