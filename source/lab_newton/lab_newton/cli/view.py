"""``lab view``: a robot from its file, before there is a task."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lab_core.cli import parse, split_subject, with_dashes
from lab_core.errors import LabError

if TYPE_CHECKING:
    from lab_newton.viewer.model_file import ModelFile

_DESCRIPTION = """Show a robot from its MJCF, URDF or USD file: what was built of it, and how it moves.

Example: lab view robot.urdf --joint-pos knee=0.8 --picture robot.png"""


@dataclass(kw_only=True)
class ViewOptions:
    """Options of ``lab view``."""

    picture: Path | None = None
    """Write one picture to this .png file instead of serving a page."""
    shapes: Literal["visual", "collision"] = "visual"
    """What a picture shows: what is drawn, or what collides. The page has a switch for each."""
    joint_pos: tuple[str, ...] = ()
    """Joints not at their default, as NAME=POSITION [rad or m]; names may be regular expressions."""
    package_folders: tuple[str, ...] = ()
    """Folders with the packages that a URDF file names in package://."""
    base: Literal["file", "fixed", "free"] = "file"
    """Whether the root is fixed to the world, or as the file says."""
    port: int = 8080
    """Of the web page, on 127.0.0.1."""
    width: int = 640
    """Of the picture [pixels]."""
    height: int = 480
    """Of the picture [pixels]."""
    seconds: float = math.inf
    """Close the page after this time [s]. Without it: go on until Ctrl-C."""


def main(argv: Sequence[str]) -> int:
    """Show a robot from its file."""
    file, arguments = split_subject(with_dashes(argv), ViewOptions)
    options = parse(ViewOptions(), arguments, prog=f"lab view {file or 'FILE'}", description=_DESCRIPTION)
    if file is None:
        raise LabError("Which file? Give one, as in `lab view robot.urdf`; MJCF, URDF and USD are known.")
    if options.picture is not None and options.picture.suffix.lower() != ".png":
        raise LabError(f"A picture is a .png file, got --picture {options.picture}.")
    from lab_newton.viewer.model_file import ModelFile

    fixed = {"file": None, "fixed": True, "free": False}[options.base]
    model = ModelFile(file, _positions(options.joint_pos), options.package_folders, fixed)
    try:
        print(model.report())
        if options.picture is None:
            _serve(model, options)
        else:
            _take_picture(model, options)
    finally:
        model.close()
    return 0


def _positions(settings: Sequence[str]) -> dict[str, float]:
    """Returns what ``NAME=POSITION`` says, by name."""
    positions = {}
    for setting in settings:
        name, _, value = setting.rpartition("=")
        try:
            positions[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            raise LabError(f"--joint-pos takes NAME=POSITION, as in knee=0.8; got {setting!r}.")
    return positions


def _take_picture(model: ModelFile, options: ViewOptions) -> None:
    from lab_newton.viewer.png import write_png

    assert options.picture is not None
    write_png(options.picture, model.render(options.width, options.height, options.shapes == "collision"))
    print(f"picture: {options.picture}")


def _serve(model: ModelFile, options: ViewOptions) -> None:
    page = model.open_page(options.port)
    print(f"page: {page.url} (Ctrl-C ends)", flush=True)
    end = time.monotonic() + options.seconds
    try:
        while time.monotonic() < end:
            page.update()
            time.sleep(1 / 30)
    except KeyboardInterrupt:
        print()
