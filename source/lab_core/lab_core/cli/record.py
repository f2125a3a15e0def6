"""``lab record``: episodes of a task as HDF5 files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lab_core.cli.arguments import EnvironmentOptions, check_counts, resolve_device, split_subject, with_dashes
from lab_core.cli.console import print_warning
from lab_core.cli.overrides import parse
from lab_core.cli.progress import ProgressDisplay
from lab_core.errors import LabError
from lab_core.registry import get_task

if TYPE_CHECKING:
    from lab_core.datasets import DatasetCfg
    from lab_core.datasets.writer import DatasetWriter
    from lab_core.recorder import RecorderTermCfg

UsualTerms = Callable[[Any], "dict[str, RecorderTermCfg | None]"]
Options = TypeVar("Options")


@dataclass(kw_only=True)
class RecordOptions(EnvironmentOptions):
    """Options of ``lab record``, before those of the environment."""

    policy: str = "random"
    """random (uniform in -1 .. 1), zero, demo (the one that comes with the task), FILE.onnx (from ``lab export``), or
    module:function, called with the environment and its observations."""
    action_noise: float = 0.0
    """Standard deviation of normal noise added to the policy's actions."""
    force: bool = False
    """Let a policy act also where it was made for other joints, scales, timing or observations."""
    episodes: int = 10
    """Complete episodes to record."""
    output: Path | None = None
    """Folder for the files. Without it: recordings/TASK."""
    name: str = "dataset"
    """Files are called NAME-00000.hdf5, ..."""
    label: str = ""
    """Regime of these episodes, such as walking, stored with each of them."""
    mode: Literal["all", "successful", "separate"] = "all"
    """Which episodes to write: all; only successful ones; or all, with failed ones in files of their own."""
    existing: Literal["refuse", "overwrite", "resume"] = "refuse"
    """If the folder already holds this recording. resume: record what is missing to EPISODES, with another seed."""
    compression: int = 0
    """Level of gzip, 1 .. 9; 0: none, so that readers can map the files into memory."""
    shard_seconds: float = 60.0
    """A file with an episode in it is finished at the latest after this time [s]: what a crash can cost."""
    memory_limit: float | None = None
    """Refuse to keep more than this for running episodes [GiB]. Without it: the limit of the environment's recorder."""
    num_envs: int | None = None
    """Environments in parallel. Without it: the task's number, but no more than EPISODES."""
    play_config: bool = False
    """--play-config: the environment as for watching, without noise and disturbances."""


@dataclass(kw_only=True)
class RecordArguments(RecordOptions):
    """All options of ``lab record``."""

    env: Any


def main(argv: list[str]) -> int:
    """Record episodes of a task to HDF5 files that Isaac Lab's and robomimic's tools read."""
    from lab_core.recorder import task_terms

    return record_command(argv, "lab record", main.__doc__ or "", task_terms)


def record_command(argv: list[str], command: str, title: str, usual_terms: UsualTerms) -> int:
    """Records as ``lab record`` does, for a command that keeps other values.

    Args:
        argv: Arguments of the command.
        command: How it is called, for messages.
        title: What it does, in one sentence.
        usual_terms: What it records in an environment, of a given configuration, that has no recorder of its own.
    """
    task, arguments = split_subject(with_dashes(argv), RecordOptions)

    def parsed(options: Options, task: str) -> Options:
        example = f"{command} {task} --policy policy.onnx --episodes 100 --label walking"
        return parse(options, arguments, prog=f"{command} {task}", description=f"{title}\n\nExample: {example}")

    if task is None:
        parsed(RecordOptions(), "TASK")
        raise LabError(f"Which task? Give its id, as in `{command} Lab-Cartpole`; `lab list` shows all.")
    cfg = get_task(task).make_env_cfg(play="--play-config" in arguments)
    args = parsed(RecordArguments(env=cfg), task)
    check_counts(args, "episodes", "num_envs")
    return _record(task, args, usual_terms)


def _record(task: str, args: RecordArguments, usual_terms: UsualTerms) -> int:
    from lab_core.datasets import DatasetCfg
    from lab_core.datasets.writer import check_target, dataset_sinks
    from lab_core.envs import check_frontend, make_env
    from lab_core.recorder import RecorderCfg, RecorderManager, RetentionCfg
    from lab_core.rollouts import find_policy, make_policy
    from lab_core.rollouts.collect import EpisodeQuota, collect_episodes

    check_frontend(args.frontend)
    if not 0.0 <= args.action_noise < float("inf"):
        raise LabError(f"--action-noise must be at least 0, got {args.action_noise:g}.")
    device = resolve_device(args.device)
    described = find_policy(args.policy, get_task(task))
    dataset = DatasetCfg(
        folder=args.output or Path("recordings") / task,
        name=args.name,
        mode=args.mode,
        existing=args.existing,
        env_name=task,
        label=args.label,
        compression=args.compression,
        shard_seconds=args.shard_seconds,
    )
    check_target(dataset)
    cfg = args.env
    decides = ":" in args.policy  # a function may call set_success_to_episodes()
    settings, cfg.recorder = cfg.recorder or RecorderCfg(terms=usual_terms(cfg)), None
    settings.retention = settings.retention or RetentionCfg()
    if args.memory_limit is not None:
        settings.retention.memory_limit_gib = args.memory_limit
    if settings.dataset is not None:
        print_warning("The files are those of this command's options; recorder.dataset of the environment is left out.")
        settings.dataset = None
    ends = getattr(cfg, "terminations", {})
    if args.mode == "successful" and not decides and settings.success is None and ends.get("success") is None:
        raise LabError(
            f"--mode successful would record for ever: no episode of {task} succeeds, because it has no termination "
            "term 'success'. Use --mode all."
        )
    used_seeds = _recorded_seeds(dataset)
    present = len(used_seeds)
    episodes = args.episodes - present
    if episodes <= 0:
        print(f"{dataset.folder} already holds {present} episodes.")
        return 0
    if args.seed is not None:
        cfg.seed = args.seed
    if cfg.seed in used_seeds:  # would give the same episodes again
        cfg.seed = max(used_seeds) + 1
    usual = cfg.scene.resolve_num_envs(device)
    cfg.scene.num_envs = min(usual, episodes) if args.num_envs is None else args.num_envs
    env = make_env(cfg, device, args.frontend)
    quota = EpisodeQuota(episodes, env.num_envs, first_to_end=args.mode == "successful")
    writers: list[DatasetWriter] = []
    with ExitStack() as stack:  # whatever fails, or is interrupted, the rest is done
        stack.callback(_report, writers, dataset.folder)
        stack.callback(lambda: [writer.close() for writer in writers])  # where closing the environment broke off
        stack.callback(env.close)
        policy = make_policy(described, env, args.action_noise, args.force)
        recorder = RecorderManager(settings, env)
        env.set_recorder(recorder)
        writers += dataset_sinks(dataset, env, quota.takes)  # overwrites: nothing else may fail any more
        for writer in writers:
            recorder.add_sink(writer)
        began = time.perf_counter()
        with ProgressDisplay("episodes", episodes) as progress:

            def show() -> None:
                speed = recorder.transition.step * env.num_envs / (time.perf_counter() - began)
                progress.update(quota.taken, f"{speed:,.0f} steps/s")

            collect_episodes(env, policy, lambda: quota.reached, show, print_warning)
    return 0


def _report(writers: Sequence[DatasetWriter], folder: Path) -> None:
    if saved := sum(writer.num_saved for writer in writers):
        print(f"Recorded {saved} episodes in {folder}; see `lab data info {folder}`.")


def _recorded_seeds(cfg: DatasetCfg) -> list[int]:
    """The seed of each episode of the recordings to resume."""
    from lab_core.datasets.index import index_path
    from lab_core.datasets.reader import RecordedDataset
    from lab_core.datasets.writer import target_names

    seeds: list[int] = []
    for name in target_names(cfg) if cfg.existing == "resume" else ():
        if index_path(cfg.folder, name).exists():
            with RecordedDataset(cfg.folder, name) as dataset:
                seeds += [info.seed for info in dataset.infos]
    return seeds
