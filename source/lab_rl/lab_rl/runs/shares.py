"""What of a run belongs to one of the processes that train it: environments, seed, and the state of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from lab_core.envs import RLEnv, RLEnvCfg
from lab_core.errors import ConfigError
from lab_rl.algorithms import Algorithm, Runner
from lab_rl.processes import Processes
from lab_rl.runs.checkpoint import Checkpoint


def own_env_cfg(cfg: RLEnvCfg, device: torch.device, processes: Processes) -> RLEnvCfg:
    """Returns the configuration of this process's part of the environments, with a seed of its own.

    Raises:
        ConfigError: the environments cannot be split evenly.
    """
    if processes.world_size == 1:
        return cfg
    total, parts = cfg.scene.resolve_num_envs(device), processes.world_size
    if total % parts:
        near = [number for number in (total - total % parts, total - total % parts + parts) if number]
        raise ConfigError(
            f"{total} environments cannot be split evenly among {parts} processes; give a multiple of {parts} with "
            f"--num-envs, such as {' or '.join(map(str, near))}."
        )
    scene = dataclasses.replace(cfg.scene, num_envs=total // parts)
    return dataclasses.replace(cfg, scene=scene, seed=processes.seed(cfg.seed))


def check_processes(algorithm: Algorithm[Any], processes: Processes) -> None:
    """Raises ``ConfigError`` where the algorithm cannot be trained by so many processes."""
    if processes.world_size > 1 and not algorithm.many_processes:
        raise ConfigError(f"{algorithm.title} trains in one process, and torchrun has started {processes.world_size}.")


def gather_state(runner: Runner, processes: Processes) -> tuple[dict[str, Any], list[Any]]:
    """Returns the state of a run: what all processes share, and what each has of its own (nothing for one alone)."""
    state = runner.state_dict()
    if processes.world_size == 1:
        return state, []
    shared, own = _split(state, runner)
    return shared, processes.gather(_on_cpu(own))


def lone_state(runner: Runner, processes: Processes) -> tuple[dict[str, Any], list[Any]]:
    """Returns the same where the other processes are gone: theirs is missing."""
    shared, own = _split(runner.state_dict(), runner)
    return shared, [own if rank == processes.rank else None for rank in range(processes.world_size)]


def state_for(stored: Checkpoint, runner: Runner, processes: Processes) -> tuple[dict[str, Any], str | None]:
    """Returns the state that this process goes on with, and a warning where that is not all of what it had."""
    before, now = max(len(stored.processes), 1), processes.world_size
    if before != now:
        shared, _ = _split(stored.runner, runner)
        return shared, (
            f"{_count(before)} trained this run so far, now {_count(now).lower()}: networks and curricula go on, "
            "episodes and random numbers begin anew, so it is not the uninterrupted run."
        )
    if now == 1:
        return stored.runner, None
    state = {**stored.runner, **(stored.processes[processes.rank] or {})}
    lost = [str(rank) for rank, part in enumerate(stored.processes) if part is None]
    if not lost:
        return state, None
    return state, (
        f"The checkpoint was written when a process had failed. Those of process {', '.join(lost)} begin their "
        "environments and random numbers anew, so it is not the uninterrupted run."
    )


def keep_counters(stored: Checkpoint, env: RLEnv) -> None:
    """Lets an environment that begins anew go on with what is the same in all environments of a run: its count of
    steps, and the settings that a curriculum changed."""
    before = (stored.processes or [stored.runner])[0] or {}
    if "environment" in before:
        common = {name: value for name, value in before["environment"]["environment"].items() if _is_common(value)}
        state = env.state_dict()
        env.load_state_dict({**state, "environment": {**state["environment"], **common}})


def _is_common(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or value.ndim == 0


def _split(state: Mapping[str, Any], runner: Runner) -> tuple[dict[str, Any], dict[str, Any]]:
    own = {name: state[name] for name in runner.own_state if name in state}
    return {name: value for name, value in state.items() if name not in own}, own


def _on_cpu(value: Any) -> Any:
    """On their way to another process tensors must not stay on this one's GPU."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, Mapping):
        return {key: _on_cpu(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_on_cpu(item) for item in value)
    return value


def _count(processes: int) -> str:
    return "One process" if processes == 1 else f"{processes} processes"
