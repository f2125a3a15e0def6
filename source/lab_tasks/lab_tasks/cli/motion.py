"""``lab motion``: make motions for a robot to track."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab_core.cli import parse, split_subjects, with_dashes
from lab_core.errors import LabError, unknown_name_message

Options = TypeVar("Options")


@dataclass(kw_only=True)
class DemoOptions:
    """Options of ``lab motion demo``."""

    output: Path = Path("motions")
    """Folder for the clips."""


def main(argv: list[str]) -> int:
    """Make motions for a robot to track."""
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


_COMMANDS: dict[str, Callable[[list[str]], int]] = {"demo": demo}


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
