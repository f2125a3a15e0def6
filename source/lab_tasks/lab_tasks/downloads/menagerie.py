"""Where copies of the MuJoCo menagerie, a public collection of robot models with full meshes, are looked for.

Nothing is downloaded. A copy is a checkout of the collection, or the cache of the ``mujoco-menagerie`` package, which
holds one complete model per folder ``models/NAME-VERSION``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from lab_core.errors import ConfigError, unknown_name_message

FOLDER_VARIABLE = "LAB_MENAGERIE"
MODELS = {
    "anymal_c": "anybotics_anymal_c/anymal_c.xml",
    "g1": "unitree_g1/g1.xml",
    "go2": "unitree_go2/go2.xml",
}
"""Robot -> its model in a checkout of the menagerie."""


@dataclass(frozen=True)
class Place:
    """A folder that may hold models of the menagerie."""

    name: str
    """What names it: an option, a variable or a package."""
    folder: Path | None
    """None: not set."""
    is_cache: bool = False
    """Whether it is laid out as the package's cache, else as a checkout."""

    def find(self, robot: str) -> Path | None:
        """Returns the model file of ``robot`` in this folder, if it is there."""
        if self.folder is None:
            return None
        name, _, file = MODELS[robot].partition("/")
        if not self.is_cache:
            path = self.folder / name / file
            return path if path.is_file() else None
        complete = [mark.parent / file for mark in self.folder.glob(f"models/{name}-*/.complete")]
        return max((path for path in complete if path.is_file()), key=lambda path: path.stat().st_mtime, default=None)

    def __str__(self) -> str:
        if self.folder is None:
            return f"{self.name}: not set"
        return f"{self.name}: {self.folder}{'' if self.folder.is_dir() else ' (no such folder)'}"


def places(menagerie: Path | None = None) -> tuple[Place, ...]:
    """Returns where models are looked for, first to last.

    Args:
        menagerie: A checkout that takes the place of the one that ``LAB_MENAGERIE`` names.
    """
    own = Place(FOLDER_VARIABLE, _folder(FOLDER_VARIABLE)) if menagerie is None else Place("--menagerie", menagerie)
    return (
        own,
        Place("MENAGERIE_ROOT", _folder("MENAGERIE_ROOT")),
        Place("cache of mujoco-menagerie", _folder("MENAGERIE_CACHE_DIR") or _default_cache(), is_cache=True),
    )


def find_model(robot: str, menagerie: Path | None = None) -> Path | None:
    """Returns the model file of ``robot`` in the first of :func:`places` that holds it; None: in none of them.

    Raises:
        ConfigError: the menagerie has no model of ``robot``.
    """
    if robot not in MODELS:
        raise ConfigError(unknown_name_message("robot", robot, MODELS))
    found = (place.find(robot) for place in places(menagerie))
    return next((path.resolve() for path in found if path is not None), None)


def how_to_get(*robots: str) -> str:
    """Returns what a user can do to have the models of ``robots``."""
    names = " ".join(MODELS[robot].partition("/")[0] for robot in robots)
    return (
        f"Give a checkout of the MuJoCo menagerie with --menagerie DIR or {FOLDER_VARIABLE}, or run "
        f"`pip install mujoco-menagerie` and `mujoco-menagerie prefetch {names}`."
    )


def _folder(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None


def _default_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "mujoco_menagerie" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/mujoco_menagerie"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mujoco_menagerie"
