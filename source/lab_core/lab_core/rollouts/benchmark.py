"""How long the step of an environment takes under random actions, and where the time goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch

from lab_core.envs import RLEnv
from lab_core.errors import LabError
from lab_core.rollouts.step_graphs import step_graphs

_WARMUP_STEPS = 30
_ACTION_SETS = 64
"""Different actions of all environments, used in turn."""
_HOST_STEPS = 50
_PHYSICS_STEPS = 10


class BenchmarkError(LabError, RuntimeError):
    """What was timed went wrong, so that the timing means nothing."""


@dataclass(frozen=True, kw_only=True)
class StepTiming:
    """Means over the timed steps, of valid steps only."""

    num_envs: int
    steps: int
    env_step_ms: float
    """A whole step, the device never waiting for the host longer than it does in use."""
    physics_ms: float
    """``physics.step`` alone, with the states and actions of the steps."""
    host_ms: float
    """Until ``step`` returns while the device still works; on a CPU the whole step."""
    stages_ms: dict[str, float]
    """Stage of the step -> duration within it. Timed in steps of their own: a mark between two stages takes time."""
    graph_launches: int | None
    """Graphs launched per step; None for a front end that captures no graphs."""
    islands: tuple[str, ...]
    """What runs between the graphs, and why."""
    resets: int
    """Environments reset in the timed steps."""

    @property
    def env_steps_per_s(self) -> float:
        return self.num_envs / self.env_step_ms * 1e3

    @property
    def env_step_over_physics(self) -> float:
        """A whole step over ``physics.step`` alone."""
        return self.env_step_ms / self.physics_ms

    @property
    def stages_over_physics_stage(self) -> float:
        """All stages of a step over its physics stage: what is around the physics of the same step."""
        return sum(self.stages_ms.values()) / self.stages_ms["physics"]


def time_step(env: RLEnv, steps: int = 200, action_std: float = 0.5, seed: int = 0) -> StepTiming:
    """Times ``steps`` steps of ``env``, after warming up, with actions drawn from N(0, ``action_std``).

    Raises:
        BenchmarkError: environments went non-finite, solver buffers overflowed, or the step returned values that are
            not finite.
    """
    generator = torch.Generator(env.device).manual_seed(seed)
    width = gymnasium.spaces.flatdim(env.single_action_space)
    shape = (min(steps, _ACTION_SETS), env.num_envs, width)
    actions = action_std * torch.randn(shape, device=env.device, generator=generator)
    made = 0

    def step() -> tuple[Any, ...]:
        nonlocal made
        made += 1
        return env.step(actions[made % len(actions)])

    with torch.inference_mode():
        for _ in range(_WARMUP_STEPS):
            step()
        counts: list[torch.Tensor] = []
        env_step_ms = _mean_ms(lambda: counts.append(step()[-1]["reset_count"]), steps, env.device)
        graph_launches, islands = step_graphs(env)
        timing = StepTiming(
            num_envs=env.num_envs,
            steps=steps,
            env_step_ms=env_step_ms,
            physics_ms=_physics_ms(env, step, steps),
            host_ms=_host_ms(step, min(steps, _HOST_STEPS), env.device),
            stages_ms=_stages_ms(env, step, steps),
            graph_launches=graph_launches,
            islands=islands,
            resets=int(torch.stack(counts).sum()),
        )
        _check_valid(env, *step()[:2])
    return timing


class StageClock:
    """Sums up the time between marks, per stage. On a GPU a mark is an event, which a graph may hold."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: list[tuple[str, Any]] = []
        self.total_ms: dict[str, float] = {}

    @property
    def num_marks(self) -> int:
        return len(self._marks)

    def mark(self, stage: str) -> None:
        """Ends ``stage``; ``""`` ends what is no stage."""
        if self._device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True, external=True)
            event.record(torch.cuda.current_stream(self._device))
            self._marks.append((stage, event))
        else:
            self._marks.append((stage, time.perf_counter()))

    def add(self) -> None:
        """Waits for the marks made so far, or repeated by a graph, and adds what lies between them."""
        synchronize(self._device)
        for (_, before), (stage, now) in zip(self._marks, self._marks[1:], strict=False):
            if stage:
                elapsed = before.elapsed_time(now) if self._device.type == "cuda" else (now - before) * 1e3
                self.total_ms[stage] = self.total_ms.get(stage, 0.0) + elapsed

    def forget_marks(self) -> None:
        self._marks.clear()


def synchronize(device: torch.device) -> None:
    """Waits for all work of ``device``."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _mean_ms(call: Callable[[], object], times: int, device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    for _ in range(times):
        call()
    synchronize(device)
    return (time.perf_counter() - start) / times * 1e3


def _host_ms(step: Callable[[], object], times: int, device: torch.device) -> float:
    total = 0.0
    for _ in range(times):
        synchronize(device)  # else the host would wait for a place in the device's queue
        start = time.perf_counter()
        step()
        total += time.perf_counter() - start
    return total / times * 1e3


def _physics_ms(env: RLEnv, step: Callable[[], object], times: int) -> float:
    """Times bursts of physics between whole steps, which reset the environments that are done: robots that are never
    reset end up in other contacts than those of the steps."""
    env.physics.step(env.cfg.decimation)  # a front end may have captured it only within the step
    bursts = max(1, times // _PHYSICS_STEPS)
    total = 0.0
    for _ in range(bursts):
        step()
        total += _mean_ms(lambda: env.physics.step(env.cfg.decimation), _PHYSICS_STEPS, env.device)
    return total / bursts


def _stages_ms(env: RLEnv, step: Callable[[], object], times: int) -> dict[str, float]:
    clock = StageClock(env.device)
    with env.mark_stages(clock.mark):
        step()  # a front end that captures does it here
        before = clock.num_marks
        step()
        in_graph = clock.num_marks == before
        if not in_graph:
            clock.forget_marks()
        for _ in range(times):
            step()
            if in_graph:  # the next step marks with the same events
                clock.add()
        if not in_graph:
            clock.add()
    return {stage: total / times for stage, total in clock.total_ms.items()}


def _check_valid(env: RLEnv, observations: Any, reward: torch.Tensor) -> None:
    health = env.health()
    problems = [f"{buffer} overflowed: {text}" for buffer, text in health.overflows.items()]
    if health.non_finite_envs:
        times = f"{health.non_finite_envs} times an environment went non-finite"
        problems.append(f"{times}: lower physics.dt or the actions, or raise the solver's iterations")
    if not (reward.isfinite().all() and _is_finite(observations)):
        problems.append("the last step returned observations or rewards that are not finite")
    if problems:
        raise BenchmarkError(f"The timing is not valid. {'; '.join(problems)}.")


def _is_finite(observations: Any) -> bool:
    if isinstance(observations, dict):
        return all(map(_is_finite, observations.values()))
    return bool(observations.isfinite().all())
