"""``lab motion``: make motions for a robot to track, convert those of others, check, draw and film them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab_core.cli import parse, print_table, split_subjects, with_dashes
from lab_core.errors import LabError, unknown_name_message

Options = TypeVar("Options")


@dataclass(kw_only=True)
class DemoOptions:
    """Options of ``lab motion demo``."""

    output: Path = Path("motions")
    """Folder for the clips."""


@dataclass(kw_only=True)
class ConvertOptions:
    """Options of ``lab motion convert``."""

    format: str = ""
    """What the files are, never guessed: lafan1_csv, kimodo_csv, seed_csv, beyondmimic_npz, mjlab_npz or gmr_pkl."""
    input_fps: float | None = None
    """Frames per second of the files, where they do not say."""
    fps: float = 50.0
    """Frames per second of the clips."""
    ground: bool = True
    """--no-ground: leave the height of the clip as it is."""
    trust_quaternions: bool = False
    """--trust-quaternions: take them in the order of the format, though another looks more likely (a robot that looks
    backward, leans, or lies)."""
    licence: str = ""
    """Under which terms the motions may be used; kept in the clips."""
    output: Path = Path("motions")
    """Folder for the clips."""


@dataclass(kw_only=True)
class CheckOptions:
    """Options of ``lab motion check``."""


@dataclass(kw_only=True)
class ViewOptions:
    """Options of ``lab motion view``."""

    output: Path | None = None
    """The picture; its suffix decides the format, and .mp4 makes a video. Without it: beside the clip, as png."""
    reference: Path | None = None
    """Another clip, which the video shows with it, as a ghost."""


def main(argv: list[str]) -> int:
    """Make motions for a robot to track, convert those of others, check, draw and film them."""
    if not argv or argv[0] in ("-h", "--help"):
        _print_help()
        return 0
    if argv[0] not in _COMMANDS:
        raise LabError(unknown_name_message("motion command", argv[0], _COMMANDS))
    return _COMMANDS[argv[0]](list(argv[1:]))


def demo(argv: list[str]) -> int:
    """Make motions of the Unitree G1 by rules: all, or those that are named."""
    names, args = _parse(DemoOptions(), argv, "demo", "[CLIP ...]", "lab motion demo stand squat --output motions")
    from lab_tasks.motions import DEMO_CLIPS, demo_clip, g1_model, save_clip

    robot = g1_model()
    for clip in [demo_clip(name, robot) for name in names or DEMO_CLIPS]:
        path = args.output / f"{clip.name}.npz"
        save_clip(clip, path)
        print(f"{path}: {len(clip)} frames, {clip.duration:.2f} s")
    return 0


def convert(argv: list[str]) -> int:
    """Convert motions of the Unitree G1 from files of other programs; say which format they have."""
    example = "lab motion convert walk.csv --format kimodo_csv --input-fps 30 --output motions"
    paths, args = _parse(ConvertOptions(), argv, "convert", "FILE ...", example)
    from lab_tasks.motions import convert_motion, g1_model, save_clip

    if not paths:
        raise LabError(f"Give files first, as in `{example}`.")
    robot = g1_model()
    for path in map(Path, paths):
        clip = convert_motion(
            path,
            args.format,
            robot,
            input_fps=args.input_fps,
            fps=args.fps,
            ground=args.ground,
            trust_quaternions=args.trust_quaternions,
            licence=args.licence,
        )
        output = args.output / f"{clip.name}.npz"
        save_clip(clip, output)
        print(f"{output}: {len(clip)} frames, {clip.duration:.2f} s; {'; '.join(clip.history)}")
    return 0


def check(argv: list[str]) -> int:
    """Measure what clips ask of the Unitree G1; exit code 1 if it cannot do one."""
    example = "lab motion check motions/walk.npz"
    paths, _ = _parse(CheckOptions(), argv, "check", "FILE ...", example)
    from lab_tasks.motions import g1_model, load_clip, preflight

    if not paths:
        raise LabError(f"Give files first, as in `{example}`.")
    robot = g1_model()
    problems = 0
    for path in map(Path, paths):
        findings = preflight(load_clip(path), robot)
        verdicts = ["PROBLEM" if found.problem else "warning" if found.warning else "" for found in findings]
        rows = [(found.what, found.value, verdict) for found, verdict in zip(findings, verdicts, strict=True)]
        print_table((path.stem, "value", ""), rows)
        print()
        problems += verdicts.count("PROBLEM")
    print(f"{problems} problem{'' if problems == 1 else 's'} in {len(paths)} clip{'' if len(paths) == 1 else 's'}.")
    return 1 if problems else 0


def view(argv: list[str]) -> int:
    """Draw a clip of the Unitree G1 (stick figures, and curves of root, soles and joints), or film it."""
    example = "lab motion view motions/walk.npz --output walk.mp4"
    paths, args = _parse(ViewOptions(), argv, "view", "FILE", example)
    from lab_tasks.motions import film_clip, g1_model, load_clip, plot_clip
    from lab_tasks.robots import g1_cfg

    if len(paths) != 1:
        raise LabError(f"Give one file first, as in `{example}`.")
    path = Path(paths[0])
    output = args.output or path.with_suffix(".png")
    reference = None if args.reference is None else load_clip(args.reference)
    if output.suffix == ".mp4":
        pictures = film_clip(load_clip(path), g1_cfg(), output, reference)
        print(f"Filmed {path} to {output}: {pictures} pictures.")
        return 0
    if reference is not None:
        raise LabError(f"--reference is shown in a video. Write --output {output.with_suffix('.mp4')}.")
    plot_clip(load_clip(path), g1_model(), output)
    print(f"Drew {path} to {output}.")
    return 0


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": demo,
    "convert": convert,
    "check": check,
    "view": view,
}


def _print_help() -> None:
    print("usage: lab motion COMMAND ... [OPTIONS]\n")
    print(f"{main.__doc__}\n\ncommands:")
    for name, command in _COMMANDS.items():
        print(f"  {name:7}  {command.__doc__}")
    print("\n`lab motion COMMAND --help` explains one command.\n\nexample:\n  lab motion demo --output motions")


def _parse(options: Options, argv: Sequence[str], name: str, subject: str, example: str) -> tuple[list[str], Options]:
    """Returns what the command is about, and the options."""
    subjects, arguments = split_subjects(with_dashes(argv), type(options))
    description = f"{_COMMANDS[name].__doc__}\n\nExample: {example}"
    return subjects, parse(options, arguments, prog=f"lab motion {name} {subject}", description=description)
