"""Times a task's environment step under random actions and prints one JSON object.

    python scripts/benchmarks/env_step.py Lab-Cartpole --num-envs 4096 > step.json

The figures of one run can be compared with each other; a timing is refused when the physics reports an overflow.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import tyro
import warp as wp

from lab_core.registry import get_task
from lab_rl.runs.versions import versions


@dataclass
class Args:
    """What to time."""

    task: tyro.conf.Positional[str]
    device: str = "cuda"
    num_envs: int = 4096
    steps: int = 200
    warmup: int = 30
    action_std: float = 0.5


def main(args: Args) -> None:
    cfg = get_task(args.task).make_env_cfg()
    cfg.scene.num_envs = args.num_envs
    env = cfg.build(args.device)
    generator = torch.Generator(env.device).manual_seed(0)
    width = env.single_action_space.shape[0]
    actions = args.action_std * torch.randn(args.steps, args.num_envs, width, device=env.device, generator=generator)
    with torch.inference_mode():
        step_s = timed(lambda i: env.step(actions[i]), args)
        physics_s = timed(lambda i: env.physics.step(cfg.decimation), args)
    health = env.health()
    if health.overflows:
        raise SystemExit(f"The timing is not valid, solver buffers overflowed: {health.overflows}")
    result = {
        "task": args.task,
        "device": torch.cuda.get_device_name(env.device) if env.device.type == "cuda" else "cpu",
        "num_envs": args.num_envs,
        "env_step_ms": round(step_s * 1e3, 4),
        "physics_ms": round(physics_s * 1e3, 4),
        "env_step_over_physics": round(step_s / physics_s, 3),
        "env_steps_per_s": round(args.num_envs / step_s),
        "non_finite_worlds": health.non_finite_worlds,
        "versions": versions(),
    }
    print(json.dumps(result, indent=2))


def timed(step: Callable[[int], object], args: Args) -> float:
    """Returns the seconds per call, after warming up."""
    for i in range(args.warmup):
        step(i % args.steps)
    synchronize()
    start = time.perf_counter()
    for i in range(args.steps):
        step(i)
    synchronize()
    return (time.perf_counter() - start) / args.steps


def synchronize() -> None:
    wp.synchronize()
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(tyro.cli(Args))
