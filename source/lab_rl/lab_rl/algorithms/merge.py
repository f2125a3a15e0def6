"""One iteration that several processes made together, in one report."""

from __future__ import annotations

from collections.abc import Sequence

from lab_core.physics import HealthReport
from lab_rl.algorithms.base import Iteration

_SUMS = ("Train/episodes", "Perf/total_fps", "Physics/")
"""Beginnings of the names of figures that count things. Others are means over the processes that have them."""


def merge_iterations(parts: Sequence[Iteration]) -> Iteration:
    """Returns the iteration whose ``parts`` are what each process did."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    names = dict.fromkeys(name for part in parts for name in part.scalars)
    overflows = [part.health.overflows.items() for part in parts]
    return Iteration(
        number=first.number,
        env_steps=sum(part.env_steps for part in parts),
        steps_per_second=sum(part.steps_per_second for part in parts),
        reward=_mean([part.reward for part in parts]),
        episode_length=_mean([part.episode_length for part in parts]),
        scalars={name: _merged(name, [part.scalars.get(name) for part in parts]) for name in names},
        health=HealthReport(
            non_finite_envs=sum(part.health.non_finite_envs for part in parts),
            overflows={
                buffer: f"{text} (process {rank})" for rank, found in enumerate(overflows) for buffer, text in found
            },
        ),
    )


def _merged(name: str, values: Sequence[float | None]) -> float:
    if name.startswith(_SUMS):
        return sum(value for value in values if value is not None)
    mean = _mean(values)
    assert mean is not None  # the name is of one of them
    return mean


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
