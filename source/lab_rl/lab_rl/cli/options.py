"""What the commands share in reading their arguments."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_core.config import changes_between, update_from_dict
from lab_core.errors import LabError
from lab_core.registry import TaskSpec, task_ids

if TYPE_CHECKING:
    import torch

    from lab_core.agents import PPOCfg
    from lab_rl.runs import RunCfg
    from lab_rl.runs.trained_policy import TrainedPolicy


def split_subject(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The task (or run) that a command is about and the other arguments. It stands first, or is a known task id."""
    arguments = list(argv)
    for index, argument in enumerate(arguments):
        if (index == 0 and not argument.startswith("-")) or argument in task_ids():
            return arguments.pop(index), arguments
    return None, arguments


def option_value(argv: Sequence[str], option: str) -> str | None:
    """The value of `--option VALUE` or `--option=VALUE` in `argv`, for what must be known before parsing."""
    for index, argument in enumerate(argv):
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
        if argument == option and index + 1 < len(argv):
            return argv[index + 1]
    return None


def is_given(argv: Sequence[str], option: str) -> bool:
    """Whether `--option`, with or without a value, is in `argv`."""
    return any(argument.partition("=")[0] == option for argument in argv)


def check_counts(args: Any, *names: str) -> None:
    """Raises `LabError` for an option of `args` that is given and is not at least 1."""
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise LabError(f"--{name.replace('_', '-')} must be at least 1, got {value}.")


def asks_for_help(argv: Sequence[str]) -> bool:
    """Whether `argv` asks for the help text, which needs no trained policy."""
    return bool({"-h", "--help"} & set(argv))


def prepare(argv: Sequence[str]) -> list[str]:
    """`argv` with `-` for `_` in options; `--video` alone becomes `--video auto`, `--no-video` `--video none`."""
    arguments: list[str] = []
    for index, argument in enumerate(argv):
        if argument.startswith("--"):
            name, separator, value = argument.partition("=")
            argument = name.replace("_", "-") + separator + value
        if argument == "--no-video":
            arguments += ["--video", "none"]
            continue
        arguments.append(argument)
        following = argv[index + 1] if index + 1 < len(argv) else "--"
        if argument == "--video" and following.startswith("--"):
            arguments.append("auto")
    return arguments


def resolve_device(name: str) -> torch.device:
    """The torch device called `name`; `auto` is the first GPU, or the CPU without one.

    Raises:
        LabError: There is no such device.
    """
    import torch

    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise LabError(f"Unknown device {name!r}; use cpu, cuda or cuda:<number>.") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            found = f"torch finds {count} GPU{'s' if count != 1 else ''}"
            raise LabError(f"Device {name!r} does not exist: {found}. Use --device cpu to run without.")
        device = torch.device("cuda", device.index or 0)
    elif device.type != "cpu":
        raise LabError(f"Device {name!r} is not supported; use cpu, cuda or cuda:<number>.")
    return device


def ppo_cfg(spec: TaskSpec) -> PPOCfg:
    """The PPO settings of a task."""
    return spec.make_agent_cfg("ppo")


def runs_root(logs: Path, task: str, agent: PPOCfg) -> Path:
    """Folder that holds the runs of a task."""
    return logs / (agent.experiment_name or task)


def trained_policy(spec: TaskSpec, checkpoint: Path | None, logs: Path) -> TrainedPolicy:
    """The policy in `checkpoint` (or run), or without one the latest of the task's runs in `logs`.

    Raises:
        LabError: There is none, or it is of another task.
    """
    from lab_rl.runs.trained_policy import load_latest, load_trained

    if checkpoint is None:
        return load_latest(runs_root(logs, spec.id, ppo_cfg(spec)), spec)
    trained = load_trained(checkpoint)
    if trained.cfg.task != spec.id:
        raise LabError(f"{trained.path} is a checkpoint of {trained.cfg.task}, not of {spec.id}.")
    return trained


def play_env_cfg(spec: TaskSpec, run: RunCfg | None, argv: Sequence[str] = ()) -> Any:
    """The task's environment for watching, with the changes that `run` made to the task's training environment.

    With `--no-play-config` in `argv`: the environment as in training.
    """
    if "--no-play-config" in argv:
        return copy.deepcopy(run.env) if run else spec.make_env_cfg()
    cfg = spec.make_env_cfg(play=True)
    if run is not None:
        changes = changes_between(spec.make_env_cfg(), run.env)
        for name in ("seed", "deterministic"):
            changes.pop(name, None)
        changes.get("scene", {}).pop("num_envs", None)
        update_from_dict(cfg, changes)
    return cfg
