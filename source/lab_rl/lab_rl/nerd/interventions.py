"""Which of the velocities that a model predicts spoil the wrenches that follow from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lab_core.errors import LabError
from lab_newton.nerd import JointWrenches, Representation

GROUPS: Mapping[str, str] = {
    "base linear velocity": r"root velocity .",
    "base angular velocity": r"root spin .",
    "hip abduction": r"velocity .*_HAA",
    "hip flexion": r"velocity .*_HFE",
    "knee": r"velocity .*_KFE",
    "all velocities": r".*",
}
"""Channels of a quadruped, as patterns of :attr:`Representation.change_names`."""


@dataclass(frozen=True)
class WrenchError:
    """How wrong wrenches in joints are: root mean squares over steps and joints of the lengths of errors."""

    force: float
    """[N]."""
    torque: float
    """[N m]."""
    relative_force: float
    """Of the root mean square of the true force."""
    relative_torque: float
    """Of that of the true torque."""


def wrench_error(found: JointWrenches, force: Tensor, torque: Tensor, free_root: bool) -> WrenchError:
    """Returns the error of ``found`` beside the true ``force`` and ``torque`` (..., P, 3) of the same parts.

    A free root has no joint and does not count.
    """

    def errors(estimate: Tensor, true: Tensor) -> tuple[float, float]:
        estimate, true = (x[..., int(free_root) :, :].double() for x in (estimate, true))
        size = true.square().sum(-1).mean().sqrt()
        error = (estimate - true).square().sum(-1).mean().sqrt()
        return float(error), float(error / size)

    (newtons, relative_force), (metres, relative_torque) = errors(found.force, force), errors(found.torque, torque)
    return WrenchError(newtons, metres, relative_force, relative_torque)


def intervene(
    representation: Representation,
    states: tuple[Tensor, Tensor],
    predicted: Tensor,
    recorded: Tensor,
    reconstruct: Callable[[Tensor], JointWrenches],
    truth: tuple[Tensor, Tensor] | None = None,
    groups: Mapping[str, str] = GROUPS,
) -> dict[str, WrenchError]:
    """Puts recorded values in the place of a group of predicted ones at a time, and reconstructs wrenches.

    Args:
        representation: Of the model.
        states: Positions (..., Q) and velocities (..., V) at the beginning of the steps.
        predicted: (..., V) changes of velocity that the model predicts.
        recorded: (..., V) velocities at the end, as recorded.
        reconstruct: Gives the wrenches of velocities (..., V) at the end.
        truth: Forces and torques (..., P, 3) of the teacher; None: those that follow from the recorded velocities, and
            the error of all recorded velocities is 0.
        groups: Patterns of channels by what to call them.

    Returns:
        Errors by group; ``"none"``, where nothing is replaced, comes first.

    Raises:
        LabError: a group is of no channel.
    """
    names = representation.change_names
    channels = {name: _channels(names, name, pattern) for name, pattern in {"none": None, **groups}.items()}
    change = representation.velocity_change(*states, recorded)
    if truth is None:
        exact = reconstruct(recorded)
        truth = exact.force, exact.torque
    found: dict[str, WrenchError] = {}
    for name, chosen in channels.items():
        replaced = torch.where(chosen.to(predicted.device), change, predicted)
        _, velocity = representation.apply_change(*states, replaced)
        found[name] = wrench_error(reconstruct(velocity), *truth, representation.layout.floating)
    return found


def _channels(names: Sequence[str], group: str, pattern: str | None) -> Tensor:
    chosen = torch.tensor([pattern is not None and re.fullmatch(pattern, name) is not None for name in names])
    if pattern is not None and not chosen.any():
        raise LabError(f"Group {group!r} ({pattern!r}) is of no channel; there are: {', '.join(names)}.")
    return chosen


def describe_interventions(errors: Mapping[str, WrenchError]) -> list[str]:
    """Returns a Markdown table, a row per group."""
    lines = [
        "| recorded instead of predicted | force [N] | torque [N m] | force [%] | torque [%] |",
        "|---|---|---|---|---|",
    ]
    for name, error in errors.items():
        relative = f"{100 * error.relative_force:.3g} | {100 * error.relative_torque:.3g}"
        lines.append(f"| {name} | {error.force:.3g} | {error.torque:.3g} | {relative} |")
    return lines
