"""Full-mesh models of robots for watching: which there are, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab_core.cli import parse, print_error, print_table
from lab_core.errors import ConfigError, unknown_name_message
from lab_tasks.downloads import menagerie

_EXAMPLE = 'lab play Lab-Velocity-Flat-Go2 --env.scene.entities.robot.asset "$(lab assets path go2)"'
_USAGE = f"""usage: lab assets list [--menagerie DIR]
       lab assets path ROBOT [--menagerie DIR]

Find full-mesh models of robots. Nothing is downloaded.

  list  which robots have one, where it was looked for, and where it is
  path  model file of a robot in full meshes, the physics unchanged; for example
        {_EXAMPLE}
"""


@dataclass(kw_only=True)
class AssetsArgs:
    """Options of ``lab assets``."""

    menagerie: Path | None = None
    """Checkout of the MuJoCo menagerie, instead of the one that LAB_MENAGERIE names."""


def main(argv: list[str]) -> int:
    """Find full-mesh models of robots, for playing and videos."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if argv else 2
    action, rest = argv[0], argv[1:]
    if action == "list":
        args = parse(AssetsArgs(), rest, "lab assets list", "List full-mesh models.\n\nExample: lab assets list")
        return _list(args.menagerie)
    if action == "path":
        robot = rest[0] if rest and not rest[0].startswith("-") else None
        prog = f"lab assets path {robot or 'ROBOT'}"
        args = parse(AssetsArgs(), rest[robot is not None :], prog, f"Print a model file.\n\nExample: {_EXAMPLE}")
        if robot is None:
            print_error(f"Path of which robot? There are: {', '.join(menagerie.MODELS)}.")
            return 2
        print(_path(robot, args.menagerie))
        return 0
    print_error(f"{unknown_name_message('action', action, ('list', 'path'))} `lab assets --help` explains them.")
    return 2


def _list(folder: Path | None) -> int:
    found = {robot: menagerie.find_model(robot, folder) for robot in menagerie.MODELS}
    rows = [(robot, menagerie.MODELS[robot], str(path or "not found")) for robot, path in found.items()]
    print_table(("robot", "model of the menagerie", "found"), rows)
    print("\nlooked for in this order:")
    for place in menagerie.places(folder):
        print(f"  {place}")
    missing = [robot for robot, path in found.items() if path is None]
    if missing:
        print(f"\n{menagerie.how_to_get(*missing)}")
    return 0


def _path(robot: str, folder: Path | None) -> str:
    from lab_tasks.downloads.full_mesh import with_full_meshes
    from lab_tasks.robots import anymal_c_cfg, g1_cfg, go2_cfg

    ours = {"anymal_c": anymal_c_cfg(drive="dc_motor"), "g1": g1_cfg(), "go2": go2_cfg()}
    if robot not in ours:
        raise ConfigError(unknown_name_message("robot", robot, ours))
    return with_full_meshes(robot, ours[robot].asset, folder)
