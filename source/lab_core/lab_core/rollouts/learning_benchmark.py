"""How long an iteration of learning takes, and where the time goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lab_core.agents import AgentCfg
from lab_core.envs import RLEnv
from lab_core.errors import LabError, unknown_name_message
from lab_core.registry import EntryPointGroup
from lab_core.rollouts.benchmark import synchronize

_ALGORITHMS = EntryPointGroup("lab.algorithms", "algorithm")
_WARMUP_ITERATIONS = 3
_PREFIX, _SUFFIX = "Perf/", "_time"


class LearningIteration(Protocol):
    """What an iteration says of itself."""

    env_steps: int
    """Environment steps of the whole run so far, all environments together."""
    scalars: dict[str, float]
    """Values by name; ``Perf/<part>_time`` is how long a part of the iteration took [s]."""


class Learner(Protocol):
    """What is timed."""

    def iterate(self) -> LearningIteration:
        """Runs one iteration."""
        ...

    def describe(self) -> str:
        """Returns in words what of an iteration that has been made is recorded, and what is not."""
        ...


@dataclass(frozen=True, kw_only=True)
class LearningTiming:
    """Means over the timed iterations."""

    iterations: int
    iteration_ms: float
    """A whole iteration, all that the device does for it included."""
    parts_ms: Mapping[str, float]
    """Parts of an iteration, as the algorithm names them; ``waiting`` lies within the others."""
    env_steps_per_s: float
    """Environment steps per second of all environments together, learning included."""


def make_learner(env: RLEnv, agent: AgentCfg) -> Learner:
    """Returns what learns in ``env`` with the settings ``agent``.

    Raises:
        LabError: no installed package brings the algorithm, or the settings do not fit.
    """
    if agent.algorithm not in _ALGORITHMS.names():
        raise LabError(unknown_name_message("algorithm", agent.algorithm, _ALGORITHMS.names()))
    algorithm: Any = _ALGORITHMS.load(agent.algorithm)()
    algorithm.check(agent)
    return algorithm.make_runner(env, agent)


def time_learning(env: RLEnv, learner: Learner, iterations: int = 20) -> LearningTiming:
    """Times ``iterations`` of ``learner`` in ``env``, after warming up; the device is waited for at both ends."""
    steps_before = [learner.iterate().env_steps for _ in range(_WARMUP_ITERATIONS)][-1]
    parts: dict[str, float] = {}
    synchronize(env.device)
    start, steps = time.perf_counter(), steps_before
    for _ in range(iterations):
        iteration = learner.iterate()
        steps = iteration.env_steps
        for name, seconds in iteration.scalars.items():
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                part = name.removeprefix(_PREFIX).removesuffix(_SUFFIX).replace("_", " ")
                parts[part] = parts.get(part, 0.0) + seconds
    synchronize(env.device)
    seconds = time.perf_counter() - start
    return LearningTiming(
        iterations=iterations,
        iteration_ms=seconds / iterations * 1e3,
        parts_ms={part: total / iterations * 1e3 for part, total in parts.items()},
        env_steps_per_s=(steps - steps_before) / seconds,
    )
