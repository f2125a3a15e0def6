"""``lab data``: look at recordings, put them together, take them apart, check them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lab_core.cli.arguments import split_subjects, with_dashes
from lab_core.cli.console import print_table, print_warning
from lab_core.cli.overrides import parse
from lab_core.cli.progress import ProgressDisplay
from lab_core.errors import LabError, unknown_name_message

if TYPE_CHECKING:
    from lab_core.datasets.reader import RecordedDataset

Options = TypeVar("Options")


@dataclass(kw_only=True)
class InfoOptions:
    """Options of ``lab data info``."""

    name: str | None = None
    """Which recording of a folder that holds several."""
    episodes: bool = False
    """--episodes: list every episode."""
    config: bool = False
    """--config: print the environment's configuration."""


@dataclass(kw_only=True)
class CheckOptions:
    """Options of ``lab data check``."""

    name: str | None = None
    """Which recording of a folder that holds several."""


@dataclass(kw_only=True)
class MergeOptions:
    """Options of ``lab data merge``."""

    output: Path | None = None
    """The new file."""


@dataclass(kw_only=True)
class SplitOptions:
    """Options of ``lab data split``."""

    name: str | None = None
    """Which recording of a folder that holds several."""
    fractions: tuple[float, ...] = (0.8, 0.2)
    """Share of each part."""
    output: Path | None = None
    """Folder for train.hdf5, valid.hdf5 and (with three fractions) test.hdf5."""
    seed: int = 0
    """Of the random order."""


@dataclass(kw_only=True)
class PlotOptions:
    """Options of ``lab data plot``."""

    name: str | None = None
    """Which recording of a folder that holds several."""
    key: str = "actions"
    """What to draw; ``lab data info`` lists all keys."""
    episodes: tuple[int, ...] = (0,)
    """Numbers of the episodes."""
    output: Path = Path("plot.png")
    """The picture."""


def main(argv: list[str]) -> int:
    """Look at recordings (info, plot), check them, put them together and split them."""
    if not argv or argv[0] in ("-h", "--help"):
        _print_help()
        return 0
    if argv[0] not in _COMMANDS:
        raise LabError(unknown_name_message("data command", argv[0], _COMMANDS))
    return _COMMANDS[argv[0]](list(argv[1:]))


def info(argv: list[str]) -> int:
    """Show what a recording holds: episodes, keys, origin."""
    (path,), args = _parse(InfoOptions(), argv, "info", "lab data info recordings/Lab-Cartpole --episodes")
    with _open(path, args.name) as dataset:
        print_table(("what", "value"), _facts(dataset))
        if len(dataset):
            print()
            print_table(("key", "shape", "type"), _keys(dataset))
        if args.episodes:
            print()
            print_table(
                ("episode", "environment", "number", "start", "steps", "end", "success", "label"), _episodes(dataset)
            )
        if args.config:
            print()
            print(dataset.config or "(no configuration)")
    return 0


def check(argv: list[str]) -> int:
    """Read everything and report what is wrong; exit code 1 if anything is."""
    (path,), args = _parse(CheckOptions(), argv, "check", "lab data check recordings/Lab-Cartpole")
    from lab_core.datasets.check import check_recording

    with _open(path, args.name) as dataset, ProgressDisplay("episodes", len(dataset)) as progress:
        problems = check_recording(dataset, progress.update)
    for problem in problems:
        print(problem)
    found = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}."
    print(found if problems else f"{len(dataset)} episodes, no problem found.")
    return 1 if problems else 0


def merge(argv: list[str]) -> int:
    """Put recordings together in one file."""
    paths, args = _parse(
        MergeOptions(), argv, "merge", "lab data merge standing walking --output all.hdf5", several=True
    )
    if args.output is None:
        raise LabError("Where to? Give the new file with --output.")
    from lab_core.datasets.edit import common_config
    from lab_core.datasets.edit import merge as merge_recordings

    sources = [_open(path, None) for path in paths]
    with ProgressDisplay("episodes", sum(map(len, sources))) as progress:
        merge_recordings(sources, args.output, progress.update)
    if not common_config(sources) and any(source.config for source in sources):
        print_warning("The recordings have different configurations; the file has none (`lab replay` needs --task).")
    print(f"Merged {sum(map(len, sources))} episodes into {args.output}.")
    return 0


def split(argv: list[str]) -> int:
    """Deal the episodes of a recording out to files for training, validation and test."""
    (path,), args = _parse(SplitOptions(), argv, "split", "lab data split all.hdf5 --fractions 0.8 0.2 --output parts")
    names = ("train", "valid", "test")
    if args.output is None:
        raise LabError("Where to? Give a folder with --output.")
    if not 2 <= len(args.fractions) <= len(names):
        raise LabError(f"--fractions must be two or three numbers, got {list(args.fractions)}.")
    from lab_core.datasets.edit import split as split_recording

    outputs = [args.output / f"{name}.hdf5" for name in names[: len(args.fractions)]]
    with _open(path, args.name) as dataset, ProgressDisplay("episodes", len(dataset)) as progress:
        counts = split_recording(dataset, args.fractions, outputs, args.seed, progress.update)
    for output, count in zip(outputs, counts, strict=True):
        print(f"{output}: {count} episodes")
    return 0


def plot(argv: list[str]) -> int:
    """Draw a key over time as a picture."""
    example = "lab data plot all.hdf5 --key states/articulation/robot/joint_position --episodes 0 3 --output joints.png"
    (path,), args = _parse(PlotOptions(), argv, "plot", example)
    from lab_core.datasets.plot import plot_key

    with _open(path, args.name) as dataset:
        plot_key(dataset, args.key, args.episodes, args.output)
    print(f"Drew {args.key} to {args.output}.")
    return 0


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "info": info,
    "plot": plot,
    "check": check,
    "merge": merge,
    "split": split,
}


def _print_help() -> None:
    print("usage: lab data COMMAND FILE_OR_FOLDER ... [OPTIONS]\n")
    print(f"{main.__doc__}\n\ncommands:")
    for name, command in _COMMANDS.items():
        print(f"  {name:5}  {command.__doc__}")
    print("\n`lab data COMMAND --help` explains one command.\n\nexample:\n  lab data info recordings/Lab-Cartpole")


def _parse(
    options: Options, argv: Sequence[str], name: str, example: str, several: bool = False
) -> tuple[list[Path], Options]:
    """Returns the recordings in ``argv``, and the options."""
    paths, arguments = split_subjects(with_dashes(argv), type(options))
    subject = "FILE_OR_FOLDER ..." if several else "FILE_OR_FOLDER"
    description = f"{_COMMANDS[name].__doc__}\n\nExample: {example}"
    args = parse(options, arguments, prog=f"lab data {name} {subject}", description=description)
    if not paths or (len(paths) > 1 and not several):
        raise LabError(f"Give {'recordings' if several else 'one recording'} first, as in `{example}`.")
    return [Path(path) for path in paths], args


def _open(path: Path, name: str | None) -> RecordedDataset:
    from lab_core.datasets.reader import RecordedDataset

    dataset = RecordedDataset(path, name)
    for notice in dataset.notices:
        print_warning(notice)
    return dataset


def _facts(dataset: RecordedDataset) -> list[tuple[str, str]]:
    infos, attributes = dataset.infos, dataset.attributes
    steps = sum(item.length for item in infos)
    rows = [("files", str(len(dataset.files))), ("episodes", str(len(infos)))]
    for text, count in (
        ("successful", sum(item.success for item in infos)),
        ("cut off", sum(not item.complete for item in infos)),
        ("with failed physics", sum(item.non_finite for item in infos)),
        ("without their beginning", sum(item.dropped_steps > 0 for item in infos)),
    ):
        if count:
            rows.append((f"  {text}", str(count)))
    for label in sorted({item.label for item in infos} - {""}):
        rows.append((f"  labelled {label}", str(sum(item.label == label for item in infos))))
    duration = f" ({steps * attributes['step_dt']:.1f} s)" if "step_dt" in attributes else ""
    rows.append(("steps", f"{steps}{duration}"))
    if infos:
        lengths = [item.length for item in infos]
        rows.append(("length", f"{min(lengths)} .. {max(lengths)} steps"))
    rows.append(("size", f"{sum(path.stat().st_size for path, _ in dataset.files) / 2**20:.1f} MiB"))
    rows.append(("task", dataset.parsed_attribute("env_args", {}).get("env_name") or "(unknown)"))
    rows += [(name, str(attributes[name])) for name in ("physics", "physics_dt", "decimation") if name in attributes]
    for entity in dataset.parsed_attribute("names", {}):
        rows.append((f"joints of {entity}", ", ".join(dataset.entity_names(entity, "joint_names") or [])))
    rows.append(("quaternions in the file", dataset.quaternion_order))
    for package, version in dataset.parsed_attribute("versions", {}).items():
        rows.append((f"version of {package}", str(version)))
    if command := dataset.parsed_attribute("command", []):
        rows.append(("command", shlex.join(command)))
    if git := dataset.parsed_attribute("git", {}):
        rows.append(("revision", git["revision"] + (" (changed)" if git["dirty"] else "")))
    return rows


def _keys(dataset: RecordedDataset) -> list[tuple[str, str, str]]:
    initial = set(dataset.initial_keys)
    return [
        (key, f"({', '.join(['1' if key in initial else 'steps', *map(str, shape)])})", kind)
        for key, (shape, kind) in dataset.layout(0).items()
    ]


def _episodes(dataset: RecordedDataset) -> list[tuple[str, ...]]:
    rows = []
    for name, item in zip(dataset.names, dataset.infos, strict=True):
        ends = {"cut off": not item.complete, "terminated": item.terminated, "time-out": item.truncated}
        end = next((name for name, holds in ends.items() if holds), "unknown")
        numbers = (item.env_id, item.episode_index, item.start_step, item.length)
        rows.append((name, *map(str, numbers), end, "yes" if item.success else "no", item.label))
    return rows
