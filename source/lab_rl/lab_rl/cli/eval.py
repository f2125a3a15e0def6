"""``lab eval``: figures of a policy, episode by episode, as its task measures them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_core.cli import (
    EnvironmentOptions,
    asks_for_help,
    check_counts,
    option_value,
    parse,
    print_table,
    resolve_device,
    split_subject,
)
from lab_core.errors import LabError
from lab_core.registry import get_task
from lab_rl.cli import options

if TYPE_CHECKING:
    import torch

    from lab_core.envs import RLEnv
    from lab_core.registry import TaskSpec
    from lab_core.rollouts import Evaluation, Policy
    from lab_rl.runs.trained_policy import TrainedPolicy


@dataclass(kw_only=True)
class EvalOptions(EnvironmentOptions):
    """Options of ``lab eval``, before those of the environment."""

    checkpoint: Path | None = None
    """Checkpoint, or run for its latest ones. Without it: the latest run of the task in LOGS."""
    policy: str = "trained"
    """trained: that of CHECKPOINT; demo: the one that comes with the task; zero: no action; random; FILE.onnx; or
    module:function."""
    last: int = 1
    """Evaluate so many of the latest checkpoints of the run, the oldest first."""
    replicas: int = 1
    """Times that each episode is played."""
    algorithm: str | None = None
    """Only of runs of this algorithm. Without it: of any."""
    logs: Path = Path("logs")
    """Where runs are looked for: LOGS/TASK/TIME."""
    output: Path | None = None
    """File for all figures, as JSON."""


@dataclass(kw_only=True)
class EvalArguments(EvalOptions):
    """All options of ``lab eval``."""

    env: Any


def main(argv: Sequence[str]) -> int:
    """Measure a policy as its task says, episode by episode; exit code 1 if any failed."""
    task, arguments = split_subject(options.prepare(argv), EvalOptions)
    if task is None:
        parse(EvalOptions(), arguments, prog="lab eval TASK", description=_description("TASK"))
        raise LabError("Which task? Give its id, as in `lab eval Lab-Tracking-G1`; `lab list` shows all.")
    spec = get_task(task)
    evaluator = spec.make_evaluator()
    trained = [] if asks_for_help(arguments) else _find_policies(spec, arguments)
    env_cfg = options.play_env_cfg(spec, trained[-1].cfg if trained else None)
    args = parse(EvalArguments(env=env_cfg), arguments, prog=f"lab eval {task}", description=_description(task))
    check_counts(args, "last", "replicas")
    from lab_core.envs import check_frontend, make_env

    check_frontend(args.frontend)
    evaluator.configure(args.env, args.replicas)
    if args.seed is not None:
        args.env.seed = args.seed
    env = make_env(args.env, resolve_device(args.device), args.frontend)
    try:
        found = {name: evaluator.evaluate(env, policy) for name, policy in _policies(env, spec, args, trained)}
    finally:
        env.close()
    for name, evaluation in found.items():
        _show(name, evaluation)
    failed = [name for name, evaluation in found.items() if evaluation.summary["failed"]]
    print(f"{len(found) - len(failed)} of {len(found)} policies failed nowhere, {args.replicas} replicas each.")
    if args.output is not None:
        _write(args.output, task, found)
    return 1 if failed else 0


def _find_policies(spec: TaskSpec, arguments: Sequence[str]) -> list[TrainedPolicy]:
    """Returns the checkpoints to evaluate, the oldest first; none for a policy that needs no run."""
    from lab_rl.runs.folder import run_of
    from lab_rl.runs.trained_policy import load_trained

    checkpoint = option_value(arguments, "--checkpoint")
    if (policy := option_value(arguments, "--policy") or "trained") != "trained":
        if checkpoint is not None:
            raise LabError(f"Evaluate which? --policy {policy} and --checkpoint {checkpoint} are given.")
        return []
    logs = Path(option_value(arguments, "--logs") or EvalOptions().logs)
    path = None if checkpoint is None else Path(checkpoint)
    newest = options.trained_policy(spec, path, logs, option_value(arguments, "--algorithm"))
    number = int(option_value(arguments, "--last") or 1)
    before = run_of(newest.path).checkpoints_until(newest.path)
    if len(before) < number:
        raise LabError(f"{run_of(newest.path).path} has {len(before)} checkpoints up to {newest.path.name}.")
    return [*map(load_trained, before[-number:-1]), newest]


def _policies(
    env: RLEnv, spec: TaskSpec, args: EvalArguments, trained: Sequence[TrainedPolicy]
) -> Iterator[tuple[str, Policy]]:
    """Yields names and policies, each made when the one before is done."""
    from lab_core.rollouts import find_policy, make_policy

    env.reset()
    if not trained:
        yield args.policy, make_policy(find_policy(args.policy, spec), env)
    for policy in trained:
        yield str(policy.path), _of_observations(policy.attach(env))


def _of_observations(act: Callable[[], torch.Tensor]) -> Callable[[Any], torch.Tensor]:
    """A trained policy looks at its environment itself."""
    return lambda observations: act()


def _show(name: str, evaluation: Evaluation) -> None:
    keys = list(evaluation.rows[0])
    print_table(keys, [[_text(row[key]) for key in keys] for row in evaluation.rows])
    print(f"\n{name}")
    print_table(("over all episodes", ""), [(key, _text(value)) for key, value in evaluation.summary.items()])
    print()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "" if value is None else str(value)


def _write(path: Path, task: str, found: dict[str, Evaluation]) -> None:
    policies = [{"policy": name, "summary": one.summary, "rows": one.rows} for name, one in found.items()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"task": task, "policies": policies}, indent=2) + "\n")
    except OSError as error:
        raise LabError(f"Cannot write {path}: {error.strerror or error}.") from error


def _description(task: str) -> str:
    return (
        "Measure a policy as its task says, episode by episode; exit code 1 if any failed.\n\n"
        f"Example: lab eval {task} --last 3 --replicas 4 --output evaluation.json"
    )
