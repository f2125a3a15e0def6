"""Steps with the constraints of a world solved in one kernel, and with MuJoCo Warp's own solve, in turn in one run.

Example: python scripts/benchmarks/fused_solve.py --tasks Lab-Ant Lab-Velocity-Flat-Go2 --num-envs 64 --json fused.json
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from lab_core.envs import RLEnv, make_env
from lab_core.registry import get_task
from lab_core.rollouts import synchronize
from lab_core.versions import versions


@dataclass
class Options:
    """What to time."""

    tasks: tuple[str, ...]
    num_envs: int = 64
    """Environments in parallel."""
    steps: int = 40
    """Steps of a round."""
    rounds: int = 5
    """Rounds of each, of which the fastest counts."""
    device: str = "cpu"
    json: Path | None = None


def make(task: str, fused: bool, options: Options) -> RLEnv:
    """Makes the environment of a task, reset, with its kernels loaded and its step recorded."""
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs, cfg.seed, cfg.physics.solver.fused = options.num_envs, 1, fused
    env = make_env(cfg, options.device, "warp")
    env.reset()
    return env


def time_steps(env: RLEnv, steps: int) -> float:
    """Returns the time of a step [ms] under random actions."""
    device = env.device
    generator = torch.Generator(device).manual_seed(0)
    actions = 0.5 * torch.randn(8, *(env.action_space.shape or ()), device=device, generator=generator)
    for step in range(8):
        env.step(actions[step])
    synchronize(device)
    start = time.perf_counter()
    for step in range(steps):
        env.step(actions[step % 8])
    synchronize(device)
    return (time.perf_counter() - start) / steps * 1e3


def main() -> None:
    """Times all tasks and prints a row of each."""
    options = tyro.cli(Options, description=__doc__)
    rows = []
    for task in options.tasks:
        envs = {"fused_ms": make(task, True, options), "mujoco_warp_ms": make(task, False, options)}
        times = {name: [] for name in envs}
        for _ in range(options.rounds):
            for name, env in envs.items():
                times[name].append(time_steps(env, options.steps))
        row = {"task": task, **{name: round(min(found), 3) for name, found in times.items()}}
        rows.append(row)
        print(row, flush=True)
        for env in envs.values():
            env.close()
    if options.json is not None:
        result = {"num_envs": options.num_envs, "device": options.device, "rows": rows, "versions": versions()}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
