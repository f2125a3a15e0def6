"""Watch a policy: on a web page, or in a video."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from lab_core.envs import RLEnv
    from lab_core.registry import TaskSpec
    from lab_rl.runs.trained_policy import TrainedPolicy


@dataclass(kw_only=True)
class PlayOptions(EnvironmentOptions):
    """Options of ``lab play``, before those of the environment."""

    checkpoint: Path | None = None
    """Checkpoint, or run for its latest one. Without it: the latest run of the task in LOGS."""
    policy: str = "trained"
    """trained: that of CHECKPOINT, or demo where there is no run; demo: the one that comes with the task; zero: no
    action; random: uniform in -1 .. 1; FILE.onnx (from ``lab export``); or module:function, called with the environment
    and its observations."""
    force: bool = False
    """Let a policy act also where it was made for other joints, scales, timing or observations."""
    video: str = "none"
    """File for a video instead of the web page; auto (or --video alone): videos/play.mp4 in the run folder."""
    video_length: int = 300
    """Length of the video in environment steps."""
    num_envs: int | None = None
    """Environments in parallel. Without it: what the task says for watching, else 4."""
    command: tuple[float, ...] | None = None
    """Numbers that all environments follow in place of drawn commands, as in --command 0.5 0 0 (v_x, v_y, w_z)."""
    port: int = 8080
    """Of the web page, on 127.0.0.1."""
    steps: int | None = None
    """Stop after so many environment steps. Without it: go on until Ctrl-C."""
    algorithm: str | None = None
    """Only of runs of this algorithm. Without it: of any."""
    logs: Path = Path("logs")
    """Where runs are looked for: LOGS/TASK/TIME."""
    trust: bool = False
    """Let files name any code to import; else only code of packages that announce something to lab."""
    play_config: bool = True
    """--no-play-config: the environment as in training, with noise and disturbances."""


@dataclass(kw_only=True)
class PlayArguments(PlayOptions):
    """All options of ``lab play``."""

    env: Any


def main(argv: Sequence[str]) -> int:
    """Watch a policy on a web page or in a video."""
    task, arguments = split_subject(options.prepare(argv), PlayOptions)
    if task is None:
        parse(PlayOptions(), arguments, prog="lab play TASK", description=_description("TASK"))
        raise LabError("Which task? Give its id, as in `lab play Lab-Cartpole`; `lab list` shows all.")
    spec = get_task(task)
    trained = None if asks_for_help(arguments) else _find_policy(spec, arguments)
    env = options.play_env_cfg(spec, trained.cfg if trained else None, arguments)
    if env.scene.num_envs is None or "--no-play-config" in arguments:  # a training has too many to watch
        env.scene.num_envs = 4
    args = parse(PlayArguments(env=env), arguments, prog=f"lab play {task}", description=_description(task))
    if trained is None and args.policy == "trained":
        args.policy = "demo"  # nobody has trained one here
    from lab_core.envs import check_frontend
    from lab_core.rollouts import VideoRecorder

    check_frontend(args.frontend)
    check_counts(args, "video_length", "steps")
    if args.video not in ("auto", "none"):
        VideoRecorder(args.video, fps=30).close()  # so that a wrong file shows before the environment is built
    if args.num_envs is not None:
        args.env.scene.num_envs = args.num_envs
    if args.seed is not None:
        args.env.seed = args.seed
    if not is_given(arguments, "--env.scene.camera.num-envs"):
        args.env.scene.camera.num_envs = args.env.scene.num_envs
    return _play(task, args, trained)


def _find_policy(spec: TaskSpec, arguments: Sequence[str]) -> TrainedPolicy | None:
    """The policy of a run to play; None for one that needs no run, or if none is there and one comes with the task."""
    policy = option_value(arguments, "--policy") or "trained"
    checkpoint = option_value(arguments, "--checkpoint")
    if policy != "trained":
        if checkpoint is not None:
            raise LabError(f"Play which? --policy {policy} and --checkpoint {checkpoint} are given.")
        return None
    logs = Path(option_value(arguments, "--logs") or PlayOptions().logs)
    algorithm = option_value(arguments, "--algorithm")
    if spec.demo is not None and checkpoint is None and algorithm is None and not options.has_runs(spec, logs):
        return None
    return options.trained_policy(spec, None if checkpoint is None else Path(checkpoint), logs, algorithm)


def _play(task: str, args: PlayArguments, trained: TrainedPolicy | None) -> int:
    from rich.console import Console

    from lab_core.cli import ProgressDisplay
    from lab_core.envs import make_env
    from lab_core.rollouts import find_policy, make_policy
    from lab_rl.play.video import record_clip
    from lab_rl.runs.folder import run_of

    console = Console()
    device = resolve_device(args.device)
    described = "" if trained else find_policy(args.policy, get_task(task))
    env = make_env(args.env, device, args.frontend)
    try:
        if args.command is not None:
            _fix_command(task, env, args.command, console)
        if trained is None:
            env.reset()
            act = make_policy(described, env, force=args.force)
            policy = lambda: act(env.get_observations())  # noqa: E731
            console.print(f"{task} with the {args.policy} policy", highlight=False, soft_wrap=True)
        else:
            policy = trained.attach(env, args.force)
            console.print(f"{task} with {trained.path}", highlight=False, soft_wrap=True)
        if args.video == "none":
            _watch(env, policy, args, console)
        else:
            folder = run_of(trained.path).videos if trained else Path()
            path = folder / "play.mp4" if args.video == "auto" else Path(args.video)
            steps = args.steps or args.video_length
            with ProgressDisplay("steps", steps) as progress:
                clip = record_clip(env, policy, path, steps, progress.update)
            ends = f"{clip.terminations} episodes of {env.num_envs} environments ended early"
            console.print(f"Wrote {path} ({clip.pictures} pictures; {ends})", highlight=False, soft_wrap=True)
    finally:
        env.close()
    return 0


def _fix_command(task: str, env: RLEnv, values: Sequence[float], console: Console) -> None:
    """Lets all environments follow ``values``: one number per component of the task's commands, in order."""
    from lab_core.mdp import settable_commands

    terms = settable_commands(env)
    if not terms:
        raise LabError(f"--command: {task} has no command that can be set.")
    components = [component for term in terms.values() for component in term.components]
    labels = ", ".join(component.label for component in components)
    if len(values) != len(components):
        raise LabError(f"--command: {task} takes {len(components)} numbers ({labels}), got {len(values)}.")
    remaining = iter(values)
    for term in terms.values():
        term.set_command([next(remaining) for _ in term.components])
    for component, value in zip(components, values, strict=True):
        if not component.low <= value <= component.high:
            bounds = f"{component.low:g} .. {component.high:g}"
            console.print(f"{component.name} {value:g} is beyond what the task draws, {bounds}", highlight=False)


def _watch(env: RLEnv, policy: Callable[[], torch.Tensor], args: PlayArguments, console: Console) -> None:
    """Shows it on a web page, until Ctrl-C or for ``args.steps`` steps."""
    from lab_core.mdp import settable_commands
    from lab_rl.play.watch import watch

    def reset() -> None:
        env.reset()

    viewer = env.physics.open_viewer(
        env.cfg.scene.camera, port=args.port, commands=settable_commands(env), on_reset=reset
    )
    console.print(f"Watch at {viewer.url} (Ctrl-C ends it)", highlight=False)
    try:
        watch(env, policy, viewer, args.steps)
    except KeyboardInterrupt:
        console.print()
    finally:
        viewer.close()


def _description(task: str) -> str:
    return f"Watch a policy for {task} on a web page or in a video.\n\nExample: lab play {task} --video play.mp4"
