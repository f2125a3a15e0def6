"""``lab bench``: how long a step takes, and where the time goes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_core.cli.arguments import EnvironmentOptions, check_counts, resolve_device, split_subject, with_dashes
from lab_core.cli.console import print_table
from lab_core.cli.overrides import parse
from lab_core.errors import LabError
from lab_core.registry import get_task

if TYPE_CHECKING:
    from lab_core.envs import RLEnv
    from lab_core.rollouts import StepTiming


@dataclass(kw_only=True)
class BenchOptions(EnvironmentOptions):
    """Options of ``lab bench``, before those of the environment."""

    steps: int = 200
    """Steps to time."""
    action_std: float = 0.5
    """Standard deviation of the actions, which are normal around zero."""
    train: bool = False
    """Time iterations of learning with the task's first agent instead of steps, and where their time goes."""
    iterations: int = 20
    """Iterations to time, with --train."""
    json: Path | None = None
    """File for the result and the versions of all that decides it."""


@dataclass(kw_only=True)
class BenchArguments(BenchOptions):
    """All options of ``lab bench``."""

    env: Any


@dataclass(kw_only=True)
class LearningBenchArguments(BenchArguments):
    """All options of ``lab bench --train``."""

    agent: Any


def main(argv: list[str]) -> int:
    """Time a task's step, its physics and every other stage under random actions, or iterations of learning."""
    task, arguments = split_subject(with_dashes(argv), BenchOptions)
    if task is None:
        parse(BenchOptions(), arguments, prog="lab bench TASK", description=_description("TASK"))
        raise LabError("Which task? Give its id, as in `lab bench Lab-Cartpole`; `lab list` shows all.")
    spec = get_task(task)
    cfg = spec.make_env_cfg()
    learns = "--train" in arguments
    form = LearningBenchArguments(env=cfg, agent=spec.make_agent_cfg()) if learns else BenchArguments(env=cfg)
    args = parse(form, arguments, prog=f"lab bench {task}", description=_description(task))
    check_counts(args, "steps", "num_envs", "iterations")

    from lab_core.envs import check_frontend, choose_frontend, make_env

    check_frontend(args.frontend)
    device = resolve_device(args.device)
    if args.num_envs is not None:
        args.env.scene.num_envs = args.num_envs
    if args.seed is not None:
        args.env.seed = args.seed
    args.frontend = choose_frontend(args.frontend, args.env).name
    env = make_env(args.env, device, args.frontend)
    try:
        title = f"{task}: {env.num_envs} environments, {args.frontend} front end, {env.physics.description}\n"
        if isinstance(args, LearningBenchArguments):
            measured = _time_learning(env, args, title)
        else:
            measured = _time_step(env, args, title)
        result = {**_conditions(task, args, str(device), env.num_envs), **measured}
    finally:
        env.close()
    if args.json is not None:
        from lab_core.versions import versions

        result["versions"] = versions()
        del result["versions"]["command"]  # it names folders of the machine
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def _show(timing: StepTiming) -> None:
    total = sum(timing.stages_ms.values())
    stages = [(name, f"{ms:.4f}", f"{ms / total:.1%}") for name, ms in timing.stages_ms.items()]
    print_table(("stage within a step", "ms", "share"), [*stages, ("all stages", f"{total:.4f}", "")])
    print()
    launches = "none" if timing.graph_launches is None else f"{timing.graph_launches}"
    rows = [
        ("environment step", f"{timing.env_step_ms:.4f} ms"),
        ("physics alone", f"{timing.physics_ms:.4f} ms"),
        ("step / physics alone", f"{timing.env_step_over_physics:.3f}"),
        ("stages / physics stage", f"{timing.stages_over_physics_stage:.3f}"),
        ("host, until step() returns", f"{timing.host_ms:.4f} ms"),
        ("environment steps per second", f"{timing.env_steps_per_s:,.0f}"),
        ("graph launches per step", launches),
        *(("between the graphs", island) for island in timing.islands),
        ("environments reset", f"{timing.resets:,} in {timing.steps:,} steps"),
        ("overflows, non-finite environments", "none"),
    ]
    print_table(("what", "value"), rows)


def _time_step(env: RLEnv, args: BenchArguments, title: str) -> dict[str, Any]:
    from lab_core.rollouts import time_step

    timing = time_step(env, args.steps, args.action_std)
    print(title)
    _show(timing)
    return {
        "steps": timing.steps,
        "action_std": args.action_std,
        "env_step_ms": round(timing.env_step_ms, 4),
        "physics_ms": round(timing.physics_ms, 4),
        "env_step_over_physics": round(timing.env_step_over_physics, 3),
        "stages_over_physics_stage": round(timing.stages_over_physics_stage, 3),
        "stages_ms": {name: round(ms, 4) for name, ms in timing.stages_ms.items()},
        "host_ms": round(timing.host_ms, 4),
        "env_steps_per_s": round(timing.env_steps_per_s),
        "graph_launches_per_step": timing.graph_launches,
        "islands": timing.islands,
        "resets": timing.resets,
        "overflows": {},
        "non_finite_envs": 0,
    }


def _time_learning(env: RLEnv, args: LearningBenchArguments, title: str) -> dict[str, Any]:
    from lab_core.rollouts import describe_step, make_learner, time_learning

    learner = make_learner(env, args.agent)
    timing = time_learning(env, learner, args.iterations)
    recorded = f"{describe_step(env)} {learner.describe()}".rstrip()
    print(f"{title}{recorded}\n")
    whole = timing.iteration_ms
    parts = [(part, f"{ms:.2f}", f"{ms / whole:.1%}") for part, ms in timing.parts_ms.items()]
    print_table(("part of an iteration", "ms", "share"), [*parts, ("whole iteration", f"{whole:.2f}", "")])
    print()
    rows = [
        ("environment steps per second, with learning", f"{timing.env_steps_per_s:,.0f}"),
        ("algorithm", args.agent.algorithm),
        ("iterations", f"{timing.iterations}"),
    ]
    print_table(("what", "value"), rows)
    return {
        "algorithm": args.agent.algorithm,
        "recorded": recorded,
        "iterations": timing.iterations,
        "iteration_ms": round(whole, 3),
        "parts_ms": {part: round(ms, 3) for part, ms in timing.parts_ms.items()},
        "env_steps_per_s_with_learning": round(timing.env_steps_per_s),
    }


def _conditions(task: str, args: BenchArguments, device: str, num_envs: int) -> dict[str, Any]:
    """What was timed and where."""
    import torch

    return {
        "task": task,
        "frontend": args.frontend,
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        "num_envs": num_envs,
    }


def _description(task: str) -> str:
    return f"{main.__doc__}\n\nExample: lab bench {task} --num-envs 4096 --json step.json"
