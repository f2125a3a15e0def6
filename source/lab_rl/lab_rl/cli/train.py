"""Train a policy for a task."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab_core.cli import (
    EnvironmentOptions,
    asks_for_help,
    check_counts,
    is_given,
    option_value,
    parse,
    resolve_device,
    split_subject,
)
from lab_core.errors import LabError
from lab_core.registry import get_task
from lab_rl.cli import options
from lab_rl.cli.launch import launch_processes

if TYPE_CHECKING:
    from lab_rl.processes import Processes


@dataclass(kw_only=True)
class TrainOptions(EnvironmentOptions):
    """Options of ``lab train``, before those of the environment and the agent."""

    algorithm: str | None = None
    """How to learn: an agent of the task, or an installed algorithm with its own settings. Without it: the task's first
    agent."""

    num_envs: int | None = None
    """Environments in parallel. Without it: 4096 on a GPU, 64 on a CPU, or what the task says."""
    seed: int | None = None
    """Seed of the whole run; -1 draws one. Without it: the environment's."""
    max_iterations: int | None = None
    """Iterations of the whole run, also when it is resumed."""
    logs: Path = Path("logs")
    """Where the run folder is made: LOGS/TASK/TIME."""
    name: str | None = None
    """Added to the name of the run folder."""
    config: Path | None = None
    """Run, or its config.yaml, to start an equal one; takes the place of TASK."""
    resume: Path | None = None
    """Run or checkpoint to go on from, in its own folder; takes the place of TASK."""
    trust: bool = False
    """Let files name any code to import; else only code of packages that announce something to lab."""
    video: str = "auto"
    """File for a clip of the trained policy; auto: videos/final.mp4 in the run folder; none (or --no-video)."""
    video_length: int = 300
    """Length of the clip in environment steps."""
    processes: int = 1
    """Processes of this machine that train together, each on a GPU of its own if there are any; they share the
    environments. Several machines: ``torchrun ... -- $(which lab) train TASK``."""
    play_config: bool = False
    """Train in the environment that ``lab play`` uses."""
    deterministic: bool = False
    """Make GPU runs repeat bit for bit, about 16 times slower. CPU runs always repeat."""


@dataclass(kw_only=True)
class TrainArguments(TrainOptions):
    """All options of ``lab train``."""

    env: Any
    agent: Any


def main(argv: Sequence[str]) -> int:
    """Train a policy for a task."""
    launch_processes("train", argv)
    task, arguments = split_subject(options.prepare(argv), TrainOptions)
    resume, config = option_value(arguments, "--resume"), option_value(arguments, "--config")
    _refuse_what_would_be_ignored(arguments)
    if task is None and resume is None and config is None:
        parse(TrainOptions(), arguments, prog="lab train TASK", description=_description("TASK", "a policy"))
        raise LabError("Which task? Give its id, as in `lab train Lab-Cartpole`; `lab list` shows all.")

    if not asks_for_help(arguments) and os.environ.get("RANK", "0") == "0":
        # Before libraries are loaded, which takes seconds: nobody shall wonder whether anything happens.
        print(f"lab train {task or resume or config}: loading", file=sys.stderr, flush=True)

    import torch

    from lab_core.envs import check_frontend
    from lab_core.rollouts import VideoRecorder
    from lab_rl.algorithms import get_algorithm, make_agent_cfg
    from lab_rl.processes import OtherProcessError, joined_processes
    from lab_rl.runs.config import RunCfg, load_run_cfg
    from lab_rl.runs.folder import RunFolder, find_checkpoint, run_of

    checkpoint, run = None, None
    if resume is not None:
        checkpoint = find_checkpoint(Path(resume))
        run = run_of(checkpoint)
    source = run.config if run else Path(config) if config else None
    if source is not None and source.is_dir():
        source = RunFolder(source).config
    if source is not None:
        stored = load_run_cfg(source)
        if task is not None and task != stored.task:
            raise LabError(f"{source} is a run of {stored.task}, not of {task}.")
        task, env, agent = stored.task, stored.env, stored.agent
        device, frontend = stored.device, stored.frontend
    else:
        assert task is not None
        spec = get_task(task)
        device, frontend = "auto", "auto"
        env = spec.make_env_cfg(play="--play-config" in arguments)
        agent = make_agent_cfg(spec, option_value(arguments, "--algorithm"))

    args = parse(
        TrainArguments(device=device, frontend=frontend, algorithm=agent.algorithm, env=env, agent=agent),
        arguments,
        prog=f"lab train {task}",
        description=_description(task, f"a policy for {task} with {get_algorithm(agent.algorithm).title}"),
    )
    check_counts(args, "processes", "video_length")
    cfg = _resolve(RunCfg(task=task, device=device, frontend=args.frontend, env=args.env, agent=args.agent), args)
    check_frontend(cfg.frontend)
    if run is not None and cfg.device.partition(":")[0] != device.partition(":")[0]:
        raise LabError(
            f"{run.path} was trained on {device} and cannot go on on {cfg.device}: "
            "random generators do not move between kinds of devices."
        )
    with joined_processes(torch.device(cfg.device)) as processes:
        if processes.is_first and args.video not in ("auto", "none"):
            VideoRecorder(args.video, fps=30).close()  # so that a wrong file shows now and not after the training
        if run is None and processes.is_first:
            run = RunFolder.create(options.runs_root(args.logs, task, cfg.agent), args.name)
        try:
            return _train(cfg, processes.from_first(run), checkpoint, args, processes)
        except OtherProcessError:
            return 1  # the other one says why


_LEAVES_NO_ROOM_FOR = {
    "--resume": {
        "--config": "a run is resumed with its own config.yaml",
        "--play-config": "a run is resumed in the environment that it had",
        "--algorithm": "a run is resumed with the algorithm that it had",
        "--seed": "a resumed run goes on with the random state that it had",
        "--env.seed": "a resumed run goes on with the random state that it had",
        "--logs": "a run is resumed in its own folder",
        "--agent.experiment-name": "a run is resumed in its own folder",
        "--name": "a run is resumed in its own folder",
    },
    "--config": {
        "--play-config": "the file says which environment",
        "--algorithm": "the file says which algorithm",
    },
}


def _refuse_what_would_be_ignored(arguments: Sequence[str]) -> None:
    for option, others in _LEAVES_NO_ROOM_FOR.items():
        for other, reason in others.items():
            if is_given(arguments, option) and is_given(arguments, other):
                raise LabError(f"{other} cannot be given together with {option}: {reason}.")


def _resolve(cfg: Any, args: TrainArguments) -> Any:
    """The configuration with all short options written into it and nothing left open."""
    from lab_rl.processes import own_device

    device = resolve_device(str(own_device(resolve_device(args.device))))
    cfg = copy.deepcopy(cfg)
    cfg.device = str(device)
    if args.num_envs is not None:
        cfg.env.scene.num_envs = args.num_envs
    cfg.env.scene.num_envs = cfg.env.scene.resolve_num_envs(device)
    if args.seed is not None:
        cfg.env.seed = args.seed
    cfg.env.deterministic = cfg.env.deterministic or args.deterministic
    if args.max_iterations is not None:
        cfg.agent.max_iterations = args.max_iterations
    return cfg


def _train(cfg: Any, run: Any, checkpoint: Path | None, args: TrainArguments, processes: Processes) -> int:
    from rich.console import Console

    from lab_core.cli import INTERRUPTED
    from lab_rl.runs.display import show_result
    from lab_rl.runs.training import train

    video = {"auto": run.videos / "final.mp4", "none": None}.get(args.video, Path(args.video))
    console = Console(quiet=not processes.is_first)
    result = train(cfg, run, console=console, checkpoint=checkpoint, video=video, video_steps=args.video_length)
    show_result(console, cfg.task, run, result)
    return INTERRUPTED if result.interrupted else 0


def _description(task: str, what: str) -> str:
    return f"Train {what}.\n\nExample: lab train {task} --num-envs 64 --seed 1"
