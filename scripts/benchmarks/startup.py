"""Times how long each task takes until its first step, and its speed afterwards, and prints one JSON object.

    python scripts/benchmarks/startup.py > startup.json

Every start is a process of its own. A cold one finds no compiled kernels, a warm one those of the cold one before it.
Let the machine do nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import torch
import tyro

from lab_core.envs import make_env
from lab_core.registry import get_task, task_ids
from lab_core.rollouts import time_step
from lab_core.versions import versions


@dataclass
class Args:
    """What to start."""

    tasks: tuple[str, ...] = ()
    """Without any: all that are installed."""
    frontends: tuple[str, ...] = ("torch", "warp")
    device: str = "cpu"
    num_envs: int = 64
    steps: int = 200
    """Steps to time after a warm start."""


@dataclass
class Start:
    """One start, in the process that makes it."""

    task: str
    frontend: str
    device: str
    num_envs: int
    steps: int
    """Steps to time afterwards; 0: none."""


def main(args: Args) -> None:
    results = []
    for task in args.tasks or task_ids():
        for frontend in args.frontends:
            with tempfile.TemporaryDirectory() as cache:
                cold = start(Start(task, frontend, args.device, args.num_envs, 0), cache)
                warm = start(Start(task, frontend, args.device, args.num_envs, args.steps), cache)
            results.append(
                {
                    "task": task,
                    "frontend": frontend,
                    "cold_s": cold["first_step_s"],
                    "warm_s": warm["first_step_s"],
                    "env_steps_per_s": warm["env_steps_per_s"],
                }
            )
            print(json.dumps(results[-1]), file=sys.stderr)
    found = versions()
    del found["command"]  # it names folders of the machine
    print(json.dumps({"device": args.device, "num_envs": args.num_envs, "tasks": results, "versions": found}, indent=2))


def start(job: Start, cache: str) -> dict[str, Any]:
    """Makes one start with the kernel cache in folder ``cache``."""
    environment = os.environ | {"WARP_CACHE_PATH": cache}
    command = [sys.executable, __file__, "--start", json.dumps(vars(job) | {"began": time.time()})]
    finished = subprocess.run(command, env=environment, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"{job.task}, {job.frontend} front end:\n{finished.stderr}")
    return json.loads(finished.stdout.splitlines()[-1])  # before it, Warp and the physics tell what they compile


def run_start(job: Start, began: float) -> None:
    """Builds the environment, makes a step, and prints how long it took since ``began`` (Unix time [s])."""
    cfg = get_task(job.task).make_env_cfg()
    cfg.scene.num_envs = job.num_envs
    env = make_env(cfg, job.device, job.frontend)
    _, reward, *_ = env.step(torch.zeros(env.action_space.shape or (), device=env.device))
    reward.sum().item()  # waits for the device
    result: dict[str, Any] = {"first_step_s": round(time.time() - began, 2)}
    if job.steps:
        result["env_steps_per_s"] = round(time_step(env, job.steps).env_steps_per_s)
    env.close()
    print(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--start"]:
        settings = json.loads(sys.argv[2])
        run_start(began=settings.pop("began"), job=Start(**settings))
    else:
        main(tyro.cli(Args, description=__doc__))
