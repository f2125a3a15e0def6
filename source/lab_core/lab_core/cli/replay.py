"""``lab replay``: does a recording repeat?"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab_core.cli.arguments import check_counts, resolve_device, split_subject, with_dashes
from lab_core.cli.console import print_table, print_warning
from lab_core.cli.overrides import parse
from lab_core.cli.progress import ProgressDisplay
from lab_core.errors import LabError

if TYPE_CHECKING:
    from lab_core.rollouts.replay import ReplayReport

_MISMATCHES_SHOWN = 5


@dataclass(kw_only=True)
class ReplayOptions:
    """Options of ``lab replay``."""

    name: str | None = None
    """Which recording of a folder that holds several."""
    episodes: tuple[int, ...] = ()
    """Numbers of the episodes to repeat. Without them: all."""
    tolerance: float = 1e-4
    """Largest difference of a state, divided by 1 + its absolute value, in SI units."""
    task: str | None = None
    """Task to repeat it in. Without it: the configuration in the file."""
    video: Path | None = None
    """MP4 file to show the repetition in."""
    num_envs: int | None = None
    """Episodes that run side by side. Without it: all, but no more than 64."""
    device: str = "auto"
    """cpu, cuda or cuda:<number>; auto takes a GPU if there is one."""
    trust: bool = False
    """Let files name any code to import; else only code of packages that announce something to lab."""


def main(argv: list[str]) -> int:
    """Repeat recorded episodes from their initial states and actions, and compare the states."""
    path, arguments = split_subject(with_dashes(argv), ReplayOptions)
    description = f"{main.__doc__}\n\nExample: lab replay recordings/Lab-Cartpole --episodes 0 3 --video replay.mp4"
    args = parse(ReplayOptions(), arguments, prog="lab replay FILE_OR_FOLDER", description=description)
    if path is None:
        raise LabError("Which recording? Give a file or folder, as in `lab replay recordings/Lab-Cartpole`.")
    if not args.tolerance >= 0.0:
        raise LabError(f"--tolerance must be at least 0, got {args.tolerance:g}.")
    check_counts(args, "num_envs")
    report = _replay(Path(path), args)
    print_table(("key", "largest difference"), [(k, f"{v:.3g}") for k, v in report.largest_errors.items()])
    if report.ok:
        print(f"{report.episodes} episodes ({report.steps} steps) repeat within {report.tolerance:g}.")
        return 0
    print(f"{len(report.mismatches)} of {report.episodes} episodes do not repeat within {report.tolerance:g}. First:")
    for mismatch in report.mismatches[:_MISMATCHES_SHOWN]:
        print(f"  {mismatch}")
    return 1


def _replay(path: Path, args: ReplayOptions) -> ReplayReport:
    from lab_core.datasets.provenance import physics_attributes, physics_differences
    from lab_core.datasets.reader import RecordedDataset
    from lab_core.rollouts import VideoRecorder, build_replay_env, replay_episodes

    with ExitStack() as stack:
        dataset = stack.enter_context(RecordedDataset(path, args.name))
        for notice in dataset.notices:
            print_warning(notice)
        episodes = list(args.episodes or range(len(dataset)))
        if not episodes:
            raise LabError(f"{path} holds no episodes.")
        for index in episodes:
            dataset.where(index)  # raises for one that does not exist, before anything is built
        num_envs = args.num_envs or min(len(episodes), 64)
        env = build_replay_env(dataset, num_envs, str(resolve_device(args.device)), args.task)
        stack.callback(env.close)
        if "physics_fingerprint" in dataset.attributes:
            found = physics_differences(physics_attributes(env), dataset.attributes)
            if found:
                print_warning("The physics differs from that of the recording:\n  " + "\n  ".join(found))
        env.cfg.scene.camera.num_envs = num_envs
        video = None
        if args.video is not None:
            video = stack.enter_context(VideoRecorder(args.video, fps=1.0 / env.step_dt))
        total = sum(dataset.infos[index].length for index in episodes)
        progress = stack.enter_context(ProgressDisplay("steps", total))

        def show(steps: int) -> None:
            if video is not None:
                video.add(env.render()[0])
            progress.update(steps)

        return replay_episodes(dataset, env, episodes, args.tolerance, show)
