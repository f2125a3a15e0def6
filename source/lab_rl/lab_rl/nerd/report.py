"""Figures of a model as Markdown, with a plot of its errors over time."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab_newton.nerd import ModelDescription, NeRDModel
from lab_rl.nerd.metrics import OneStepError, check_comparable
from lab_rl.nerd.replays import ReplayErrors
from lab_rl.nerd.returns import Returns
from lab_rl.nerd.rollouts import RolloutErrors
from lab_rl.runs.files import write_file


def describe_model(model: NeRDModel, description: ModelDescription) -> list[str]:
    """Returns what the model is, as lines."""
    extra, layout = description.extra, model.layout
    size = sum(parameter.numel() for parameter in model.network.parameters())
    return [
        f"# Learned dynamics of {extra.get('task') or 'a robot'}",
        "",
        f"{model.network_name} with {size:,} weights and {model.network.context} frames of history, "
        f"{layout.dt * 1000:g} ms per step, {extra.get('updates', '?')} updates on {extra.get('transitions', '?')} "
        f"steps. SHA-256 {description.sha256[:16]}.",
        "",
        "What it says holds for this robot, these materials, actuators and this timing alone. It knows no forces.",
    ]


def describe_one_step(errors: Mapping[str, OneStepError], note: str) -> list[str]:
    """Returns a table of one-step errors, a column per regime."""
    check_comparable(errors)
    first = next(iter(errors.values()))
    lines = ["", f"## One step: mean squared error over the variance of the change ({first.name})", "", note, ""]
    lines += ["| channel | " + " | ".join(errors) + " |", "|---|" + "---|" * len(errors)]

    def row(name: str, values: Sequence[float]) -> str:
        return f"| {name} | " + " | ".join(f"{value:.3g}" for value in values) + " |"

    for name in first.poses:
        lines.append(row(f"{name} (follows)", [error.poses[name] for error in errors.values()]))
    for name in first.velocities:
        lines.append(row(name, [error.velocities[name] for error in errors.values()]))
    lines.append(row("**all channels**", [error.all_channels for error in errors.values()]))
    lines.append(row("**velocity**", [error.velocity for error in errors.values()]))
    lines.append(row("steps", [float(error.count) for error in errors.values()]))
    return lines


def describe_removed_contacts(errors: Mapping[str, tuple[OneStepError, OneStepError]]) -> list[str]:
    """Returns a table, a row per regime, of errors ``(with, without)`` contacts."""
    check_comparable({f"{name} {place}": error for name, pair in errors.items() for place, error in enumerate(pair)})
    lines = ["", "## One step without contacts", ""]
    lines += [
        "RMSE of changes of velocity, in their standard deviations, with the contacts that there were and with none.",
        "",
    ]
    lines += ["| regime | with | without | ratio |", "|---|---|---|---|"]
    for name, (seen, removed) in errors.items():
        a, b = seen.velocity_rmse, removed.velocity_rmse
        lines.append(f"| {name} | {a:.3g} | {b:.3g} | {b / a if a else float('inf'):.3g} |")
    return lines


def describe_rollouts(errors: RolloutErrors, seconds: Sequence[float], num_envs: int, picture: str) -> list[str]:
    """Returns a table of errors of free rollouts."""
    lines = ["", f"## Free rollouts without an action, {num_envs} environments", ""]
    lines += ["Mean absolute error over the trajectory up to a time, and at that time [m or rad].", ""]
    lines += ["| time | " + " | ".join(errors.channels) + " |", "|---|" + "---|" * len(errors.channels)]
    for time in seconds:
        over, end = errors.over(time), errors.at(time)
        cells = (f"{over[name]:.3g} (at the end {end[name]:.3g})" for name in errors.channels)
        lines.append(f"| {time:.4g} s | " + " | ".join(cells) + " |")
    return [*lines, "", f"![Errors over time]({picture})"]


def describe_replays(errors: ReplayErrors) -> list[str]:
    """Returns a table of errors of rollouts beside recordings, a row per regime and time."""
    lines = ["", "## Free rollouts beside recordings", ""]
    lines += [
        "RMSE at a time after a recorded state, with the recorded efforts and contacts that the model finds itself. "
        "Those that diverged, or touched more than there are places for, are counted and not in the mean.",
        "",
    ]
    lines += ["| regime | time | root position [m] | root angle [rad] | joints [rad or m] | rollouts | diverged |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for regime in errors.regimes:
        for time in errors.times:
            figure = errors.at(regime, time)
            cells = (figure.root_position, figure.root_angle, figure.joints)
            lines.append(
                f"| {regime} | {time:.4g} s | "
                + " | ".join(f"{value:.3g}" for value in cells)
                + f" | {figure.count} | {figure.diverged} |"
            )
    return lines


def describe_returns(returns: Returns, run: Path) -> list[str]:
    """Returns what a policy earned."""
    return [
        "",
        f"## The policy of {run}",
        "",
        f"Mean return of {returns.episodes} episodes: {returns.learned:.4f} in the model, {returns.teacher:.4f} in its "
        f"teacher, gap {returns.gap:+.3%}.",
    ]


def draw_rollouts(errors: RolloutErrors, path: Path) -> None:
    """Draws errors over time, on logarithmic axes."""
    from matplotlib.figure import Figure  # slow to import

    figure = Figure(figsize=(8, 4.5))
    axes = figure.subplots()
    for column, name in enumerate(errors.channels):
        (line,) = axes.loglog(errors.times, errors.mean[:, column], label=name)
        axes.loglog(errors.times, errors.median[:, column], linestyle=":", color=line.get_color())
    axes.set_xlabel("time [s]")
    axes.set_ylabel("error [m or rad], mean (line) and median (dots)")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    write_file(path, picture.getvalue())
