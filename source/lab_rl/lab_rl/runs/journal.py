"""The course of a run in its folder: numbers, TensorBoard events and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lab_rl.algorithms import Iteration, Panel
from lab_rl.runs.curves import draw_curves
from lab_rl.runs.folder import RunFolder
from lab_rl.runs.progress import ProgressFile
from lab_rl.runs.tensorboard import EventFile


class Journal:
    """Writes down each iteration after ``start``; what earlier files hold beyond it goes away.

    Args:
        run: Where to. None: nowhere, as in a process whose run another one writes down.
        start: Iterations that are done.
        title: Of the curves.
        panels: Curves beside those that every run has.
    """

    def __init__(self, run: RunFolder | None, start: int, title: str, panels: Sequence[Panel]) -> None:
        self._run, self._title, self._panels = run, title, panels
        self._progress = ProgressFile(run.progress, start) if run else None
        self._events = EventFile(run.path, start) if run else None
        self.rows: list[dict[str, Any]] = list(self._progress.rows) if self._progress else []
        """One for each iteration; see :class:`lab_rl.runs.progress.ProgressFile`."""

    @property
    def elapsed(self) -> float:
        """Duration of the run at the last row [s]."""
        return self.rows[-1]["elapsed_s"] if self.rows else 0.0

    def add(self, iteration: Iteration, elapsed: float) -> None:
        """Writes an iteration that ended ``elapsed`` seconds after the run began."""
        summary = {
            "iteration": iteration.number,
            "env_steps": iteration.env_steps,
            "reward": iteration.reward,
            "episode_length": iteration.episode_length,
        }
        self.rows.append({**summary, "elapsed_s": round(elapsed, 3), **iteration.scalars})
        if self._progress:
            self._progress.add(self.rows[-1])
        if self._events:
            self._events.add(iteration.number, iteration.scalars)

    def draw(self) -> None:
        """Draws the curves, and puts all events on the disk."""
        if self._run:
            draw_curves(self.rows, self._run.curves, self._title, self._panels)
        if self._events:
            self._events.flush()

    def close(self) -> None:
        """Closes the files."""
        for file in (self._progress, self._events):
            if file:
                file.close()
