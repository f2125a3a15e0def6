"""Figures of a model as pictures, one file each."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lab_rl.nerd.metrics import OneStepError
from lab_rl.nerd.replays import ReplayErrors
from lab_rl.nerd.rollouts import RolloutErrors
from lab_rl.nerd.wrenches import WrenchFigures
from lab_rl.runs.files import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_rollouts(errors: RolloutErrors, path: Path) -> None:
    """Draws errors over time, on logarithmic axes."""
    with _picture(path) as (axes,):
        for column, name in enumerate(errors.channels):
            (line,) = axes.loglog(errors.times, errors.mean[:, column], label=name)
            axes.loglog(errors.times, errors.median[:, column], linestyle=":", color=line.get_color())
        axes.set_xlabel("time [s]")
        axes.set_ylabel("error [m or rad], mean (line) and median (dots)")
        axes.legend(fontsize=8)


def draw_one_step(errors: Mapping[str, OneStepError], path: Path) -> None:
    """Draws the errors of every change of velocity, a mark per regime."""
    names = list(next(iter(errors.values())).velocities)
    with _picture(path) as (axes,):
        for regime, error in errors.items():
            axes.semilogy(names, list(error.velocities.values()), "o", label=regime, alpha=0.7)
        axes.set_ylabel("squared error over variance of the change")
        axes.tick_params(axis="x", rotation=90, labelsize=7)
        axes.legend(fontsize=8)


def draw_replays(errors: ReplayErrors, path: Path) -> None:
    """Draws errors of root position, root angle and joints over time, a line per regime."""
    with _picture(path, columns=3) as every:
        for axes, (field, unit) in zip(
            every, (("root_position", "m"), ("root_angle", "rad"), ("joints", "rad or m")), strict=True
        ):
            for regime in errors.regimes:
                axes.plot(
                    errors.times, [getattr(errors.at(regime, time), field) for time in errors.times], "o-", label=regime
                )
            axes.set_xlabel("time [s]")
            axes.set_ylabel(f"{field.replace('_', ' ')} [{unit}], RMSE")
        every[0].legend(fontsize=8)


def draw_wrenches(figures: Mapping[str, WrenchFigures], path: Path) -> None:
    """Draws errors of joint forces and torques by what was recorded instead of predicted, a mark per regime."""
    with _picture(path, columns=2) as every:
        for axes, (field, unit) in zip(every, (("force", "N"), ("torque", "N m")), strict=True):
            for regime, figure in figures.items():
                values = [getattr(error, field) for error in figure.errors.values()]
                axes.plot(list(figure.errors), values, "o", label=regime, alpha=0.7)
            axes.set_ylabel(f"{field} error [{unit}]")
            axes.tick_params(axis="x", rotation=90, labelsize=7)
        every[0].legend(fontsize=8)


@contextmanager
def _picture(path: Path, columns: int = 1) -> Iterator[tuple[Axes, ...]]:
    """Gives axes beside each other, and writes what was drawn in them."""
    from matplotlib.figure import Figure  # slow to import

    figure = Figure(figsize=(8 if columns == 1 else 4 * columns, 4.5), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for one in axes:
        one.grid(alpha=0.3, which="both")
    yield tuple(axes)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    write_file(path, picture.getvalue())
