"""Times the steps of many tasks, sizes and front ends on one device, and prints one JSON object.

    python scripts/benchmarks/step_table.py --num-envs 64 1024 4096 16384 > steps.json

Every combination is a process of its own. They start side by side, ``--at-once`` of them; once all of those stand, one
after the other times its steps, as ``lab bench`` does, while the rest wait.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Lock
from typing import Any

import torch
import tyro

from lab_core.envs import make_env
from lab_core.registry import get_task, task_ids
from lab_core.rollouts import synchronize, time_step
from lab_core.versions import versions


@dataclass
class Args:
    """What to time."""

    tasks: tuple[str, ...] = ()
    """Without any: all that are installed."""
    frontends: tuple[str, ...] = ("warp",)
    num_envs: tuple[int, ...] = (4096,)
    runtimes: tuple[str, ...] = ("",)
    """Of tasks in a learned model: what computes its network, see ``NeRDSolverCfg``; empty: as the task has it."""
    device: str = "cuda:0"
    steps: int = 200
    action_std: float = 0.5
    at_once: int = 16
    """Processes that exist at a time; about one per core of the host, and what fits into the device's memory."""


@dataclass
class Case:
    """One row of the table."""

    task: str
    frontend: str
    num_envs: int
    compute_final_obs: bool = True
    runtime: str = ""


def main(args: Args) -> None:
    axes = (args.tasks or task_ids(), args.frontends, args.num_envs, args.runtimes)
    cases = [
        Case(task, frontend, num_envs, runtime=runtime)
        for task, frontend, num_envs, runtime in itertools.product(*axes)
    ]
    rows = []
    for start in range(0, len(cases), args.at_once):
        rows += time_side_by_side(cases[start : start + args.at_once], args)
    found = versions()
    found.pop("command")  # it names folders of the machine
    name = torch.cuda.get_device_name(args.device) if args.device.startswith("cuda") else args.device
    table = {"device": name, "steps": args.steps, "action_std": args.action_std, "rows": rows, "versions": found}
    print(json.dumps(table, indent=2))


def time_side_by_side(cases: Sequence[Case], args: Args) -> list[dict[str, Any]]:
    """Returns a row per case; one that failed has the key ``error``."""
    context = multiprocessing.get_context("spawn")
    built, turn = context.Barrier(len(cases)), context.Lock()
    rows: dict[Connection, dict[str, Any]] = {}
    for case in cases:
        receiver, sender = context.Pipe(duplex=False)
        context.Process(target=work, args=(case, args, built, turn, sender)).start()
        sender.close()
        rows[receiver] = asdict(case)
    waiting = list(rows)
    while waiting:
        for receiver in connection.wait(waiting):
            assert isinstance(receiver, Connection)
            waiting.remove(receiver)
            try:
                rows[receiver] |= receiver.recv()
            except EOFError:
                rows[receiver]["error"] = "its process died"
                built.abort()  # nobody is to wait for it
            print(summary(rows[receiver]), file=sys.stderr, flush=True)
    return list(rows.values())


def work(case: Case, args: Args, built: Barrier, turn: Lock, sender: Connection) -> None:
    """Builds one environment, waits for the others, and times it when it is its turn."""
    try:
        try:
            env = built_env(case, args)
        finally:
            built.wait()
        with turn:
            timing = time_step(env, args.steps, args.action_std)
            synchronize(env.device)
    except Exception as error:
        traceback.print_exc()
        sender.send({"error": f"{type(error).__name__}: {error}"})
        return
    sender.send(
        asdict(timing)
        | {
            "env_steps_per_s": round(timing.env_steps_per_s),
            "env_step_over_physics": round(timing.env_step_over_physics, 3),
            "stages_over_physics_stage": round(timing.stages_over_physics_stage, 3),
        }
    )
    env.close()


def built_env(case: Case, args: Args) -> Any:
    """Returns an environment whose kernels are compiled and whose step is recorded."""
    cfg = get_task(case.task).make_env_cfg()
    cfg.scene.num_envs = case.num_envs
    cfg.compute_final_obs = case.compute_final_obs
    if case.runtime:
        cfg.physics.solver.runtime = case.runtime
    env = make_env(cfg, args.device, case.frontend)
    shape = env.action_space.shape
    assert shape is not None
    env.step(torch.zeros(shape, device=env.device))
    synchronize(env.device)
    return env


def summary(row: dict[str, Any]) -> str:
    """One line for a reader who waits."""
    case = " ".join(filter(None, (row["task"], row["runtime"], row["frontend"], f"{row['num_envs']:,}")))
    if not row["compute_final_obs"]:
        case += " without final observations"
    if "error" in row:
        return f"{case}: {row['error']}"
    ratio = f"{row['stages_over_physics_stage']:.3f} of its physics"
    return f"{case}: {row['env_step_ms']:.3f} ms, {ratio}, {row['env_steps_per_s']:,} environment steps/s"


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
