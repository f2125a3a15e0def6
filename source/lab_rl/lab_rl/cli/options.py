"""What the commands about runs share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_core.cli import with_dashes
from lab_core.config import changes_between, update_from_dict
from lab_core.errors import LabError
from lab_core.registry import TaskSpec

if TYPE_CHECKING:
    from lab_core.agents import AgentCfg
    from lab_rl.runs import RunCfg
    from lab_rl.runs.trained_policy import TrainedPolicy


def prepare(argv: Sequence[str]) -> list[str]:
    """Returns ``argv`` with dashes; ``--video`` alone becomes ``--video auto``, ``--no-video`` ``--video none``."""
    argv, arguments = with_dashes(argv), []
    for index, argument in enumerate(argv):
        if argument == "--no-video":
            arguments += ["--video", "none"]
            continue
        arguments.append(argument)
        following = argv[index + 1] if index + 1 < len(argv) else "--"
        if argument == "--video" and following.startswith("--"):
            arguments.append("auto")
    return arguments


def runs_root(logs: Path, task: str, agent: AgentCfg) -> Path:
    """Returns the folder that holds the runs of a task."""
    return logs / (agent.experiment_name or task)


def has_runs(spec: TaskSpec, logs: Path) -> bool:
    """Returns whether a run of the task with a checkpoint is in ``logs``."""
    from lab_rl.algorithms import make_agent_cfg
    from lab_rl.runs.folder import latest_run

    return latest_run(runs_root(logs, spec.id, make_agent_cfg(spec, None))) is not None


def trained_policy(spec: TaskSpec, checkpoint: Path | None, logs: Path, algorithm: str | None = None) -> TrainedPolicy:
    """Returns the policy in ``checkpoint`` (or run), or without one the latest of the task's runs in ``logs``.

    Args:
        spec: The task.
        checkpoint: A checkpoint or a run.
        logs: Where runs are looked for.
        algorithm: Only of this algorithm. None: of any.

    Raises:
        LabError: There is none, or it is of another task or algorithm.
    """
    from lab_rl.algorithms import make_agent_cfg
    from lab_rl.runs.trained_policy import load_latest, load_trained

    if checkpoint is None:
        return load_latest(runs_root(logs, spec.id, make_agent_cfg(spec, algorithm)), spec, algorithm)
    trained = load_trained(checkpoint)
    if algorithm not in (None, trained.cfg.agent.algorithm):
        raise LabError(f"{trained.path} was trained by {trained.cfg.agent.algorithm}, not by {algorithm}.")
    if trained.cfg.task != spec.id:
        raise LabError(f"{trained.path} is a checkpoint of {trained.cfg.task}, not of {spec.id}.")
    return trained


def play_env_cfg(spec: TaskSpec, run: RunCfg | None, argv: Sequence[str] = ()) -> Any:
    """The task's environment for watching, with the changes that ``run`` made to the task's training environment.

    With ``--no-play-config`` in ``argv``: the environment as in training.
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
