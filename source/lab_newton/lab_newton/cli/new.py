"""``lab new``: a package for a robot of one's own."""

from __future__ import annotations

import importlib.util
import keyword
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab_core.cli import parse, split_subject, with_dashes
from lab_core.errors import LabError

_DESCRIPTION = """Write a package with a task for a robot, which trains as it stands and is yours to change.

Example: lab new my_robot --robot robot.urdf"""


@dataclass(kw_only=True)
class NewOptions:
    """Options of ``lab new``."""

    robot: Path | None = None
    """Its MJCF, URDF or USD file, which is copied."""
    folder: Path | None = None
    """Where to write. Without it: a new folder of the package's name."""


def main(argv: Sequence[str]) -> int:
    """Write a package that trains, for a robot from its file."""
    name, arguments = split_subject(with_dashes(argv), NewOptions)
    options = parse(NewOptions(), arguments, prog=f"lab new {name or 'NAME'}", description=_DESCRIPTION)
    if name is None or options.robot is None:
        raise LabError("Which package, for which robot? Say so as in `lab new my_robot --robot robot.urdf`.")
    _check_name(name)
    folder = options.folder or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LabError(f"{folder} is there already. Give another folder with --folder.")
    from lab_newton.new_package.files import package_files, task_id
    from lab_newton.new_package.model_copy import copy_model
    from lab_newton.new_package.robot_facts import read_facts
    from lab_newton.robot_files import asset_path

    robot = asset_path(str(options.robot))
    texts = package_files(name, robot.name, read_facts(str(robot)))
    copy_model(robot, folder / name / "robot")
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    print(f"{folder}: the package {name} with the task {task_id(name)}\n")
    print(f"uv pip install -e {folder}\nlab train {task_id(name)}")
    return 0


def _check_name(name: str) -> None:
    """Raises :class:`LabError` for a name that no package can have, or that another one has."""
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise LabError(f"A package is named by small letters, digits and _, as in my_robot; got {name!r}.")
    if importlib.util.find_spec(name) is not None:
        raise LabError(f"There is a package {name!r} already. Choose another name.")
