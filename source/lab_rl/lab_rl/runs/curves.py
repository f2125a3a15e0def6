"""``curves.png``: the course of a run in one picture."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab_rl.algorithms import Panel
from lab_rl.runs.files import write_file

_FIRST = (Panel("Return per episode", ("reward",)), Panel("Episode length [steps]", ("episode_length",)))
_TERMS = {"Reward terms [1/s]": "Episode_Reward/", "Share of terminations": "Episode_Termination/"}
"""Panels of what a task has any number of: title -> what the names begin with."""
_LAST = (Panel("Environment steps per second", ("Perf/total_fps",)),)


def draw_curves(rows: Sequence[dict[str, Any]], path: Path, title: str, panels: Sequence[Panel] = ()) -> None:
    """Draws return, episode length, terms, ``panels`` and speed over the iterations of ``rows``."""
    from matplotlib.figure import Figure  # slow to import, and not needed before the first checkpoint

    figure = Figure(figsize=(12, 6.5))
    # by hand: an automatic layout draws everything twice
    figure.subplots_adjust(left=0.06, right=0.98, bottom=0.08, top=0.9, hspace=0.35, wspace=0.25)
    figure.suptitle(title)
    shown = (*_FIRST, *_term_panels(rows), *panels, *_LAST)
    columns = math.ceil(len(shown) / 2)
    grid = list(figure.subplots(2, columns, squeeze=False).flat)
    for axes in grid[len(shown) :]:
        axes.set_axis_off()
    for axes, panel in zip(grid, shown, strict=False):
        for name in panel.names:
            points = [(row["iteration"], row[name]) for row in rows if row.get(name) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), label=name.split("/")[-1], linewidth=1.2)
        axes.set_title(panel.title, fontsize=10)
        axes.grid(alpha=0.3)
        if len(panel.names) > 1 and axes.lines:
            axes.legend(fontsize=8 if len(panel.names) <= 6 else 5, ncols=1 + len(panel.names) // 8)
        axes.set_xlabel("iteration", fontsize=8)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    write_file(path, picture.getvalue())


def _term_panels(rows: Sequence[dict[str, Any]]) -> list[Panel]:
    """Returns the panels of the reward terms and the terminations that ``rows`` know."""
    known = dict.fromkeys(name for row in rows for name in row)
    panels = [Panel(title, tuple(n for n in known if n.startswith(start))) for title, start in _TERMS.items()]
    return [panel for panel in panels if panel.names]
