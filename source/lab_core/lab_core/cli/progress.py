"""Progress of long work: a bar on a terminal, a plain line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_INTERVAL = 10.0
"""Seconds between two plain lines."""


class ProgressDisplay:
    """Shows how much of ``total`` is done. Use it as a context manager.

    ``what`` names the things that are counted, e.g. ``"episodes"``.
    """

    def __init__(
        self,
        what: str,
        total: int,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = Console(stderr=True) if console is None else console
        self._what, self._total = what, total
        self._clock = clock
        self._last_line = clock()
        self._done = 0
        self._bar = Progress(
            TextColumn(f"[bold]{{task.completed}}/{total}[/] {what}"),
            BarColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total, note="")

    def update(self, done: int, note: str = "") -> None:
        """Show that ``done`` of the total are done; ``note`` is shown beside it. Cheap enough for every step."""
        if self.console.is_terminal:
            self._bar.update(self._task, completed=done, note=note)
            return
        finished = done >= self._total > self._done
        if finished or self._clock() - self._last_line >= LINE_INTERVAL:
            self._last_line = self._clock()
            line = f"{done}/{self._total} {self._what}"
            self.console.print(f"{line}  {note}" if note else line, soft_wrap=True, highlight=False, markup=False)
        self._done = done

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()
