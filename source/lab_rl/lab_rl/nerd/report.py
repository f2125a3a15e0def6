"""Figures of a model as Markdown; plots are in :mod:`lab_rl.nerd.plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab_newton.nerd import ModelDescription, NeRDModel
from lab_rl.nerd.interventions import describe_interventions
from lab_rl.nerd.metrics import OneStepError, check_comparable
from lab_rl.nerd.replays import ReplayErrors
from lab_rl.nerd.returns import Returns
from lab_rl.nerd.rollouts import RolloutErrors
from lab_rl.nerd.wrenches import WrenchFigures


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


def describe_one_step(errors: Mapping[str, OneStepError], note: str, picture: str) -> list[str]:
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
    return [*lines, "", f"![Errors of one step]({picture})"]


def describe_ablations(errors: Mapping[str, Mapping[str, OneStepError]]) -> list[str]:
    """Returns a table, a row per regime, of errors with everything (``"all"``) and without parts of what is seen."""
    for by_part in errors.values():
        check_comparable(by_part)
    parts = list(next(iter(errors.values())))
    lines = ["", "## One step without parts of what it sees", ""]
    lines += [
        "RMSE of changes of velocity, in their standard deviations, and how many times as large as with everything: "
        "without contacts, with the latest frame alone, with mean efforts or mean velocities.",
        "",
    ]
    lines += ["| regime | with everything | " + " | ".join(f"without {part}" for part in parts[1:]) + " |"]
    lines += ["|---|" + "---|" * len(parts)]
    for name, by_part in errors.items():
        whole = by_part["all"].velocity_rmse
        rest = (by_part[part].velocity_rmse for part in parts[1:])
        cells = (f"{value:.3g} ({value / whole if whole else float('inf'):.3g} x)" for value in rest)
        lines.append(f"| {name} | {whole:.3g} | " + " | ".join(cells) + " |")
    return lines


def describe_wrenches(figures: Mapping[str, WrenchFigures], friction: float, picture: str) -> list[str]:
    """Returns a table per regime of wrenches that follow from predictions, a row per group of channels."""
    lines = ["", "## Wrenches in the joints that the motion implies", ""]
    lines += [
        f"From predicted velocities, recorded efforts and recorded contacts (friction {friction:g}), beside those that "
        "the teacher's solver finds in the same steps: root mean squares of the errors of joint forces and torques, "
        "and their share of the wrenches themselves. The model predicts no forces, and this is no measurement. In each "
        "row, recorded values of some channels take the place of predicted ones; what is left with all of them is the "
        "error of the search for forces.",
    ]
    for regime, figure in figures.items():
        predicted, recorded = figure.unexplained
        lines += ["", f"### {regime}, {figure.count} steps", "", *describe_interventions(figure.errors), ""]
        lines += [
            f"Largest residual of a joint's row: {figure.residual:.2g} N m or N. Joint accelerations that neither "
            f"efforts nor contacts explain: {predicted:.3g} in predictions, {recorded:.3g} in recordings (rad/s^2 or "
            f"m/s^2, root mean square). The solver came within {figure.off:.2g} m/s or rad/s of recorded velocities."
        ]
    return [*lines, "", f"![Errors of wrenches]({picture})"]


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


def describe_replays(errors: ReplayErrors, picture: str) -> list[str]:
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
    return [*lines, "", f"![Errors of rollouts]({picture})"]


def describe_returns(returns: Returns, run: Path) -> list[str]:
    """Returns what a policy earned."""
    return [
        "",
        f"## The policy of {run}",
        "",
        f"Mean return of {returns.episodes} episodes: {returns.learned:.4f} in the model, {returns.teacher:.4f} in its "
        f"teacher, gap {returns.gap:+.3%}.",
    ]
