"""A copy of a model file with what it refers to."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab_core.errors import ConfigError

_REFERENCE = re.compile(r"""\bfile(?:name|up|down|left|right|front|back)?\s*=\s*["']([^"']+)""")
_FOLDER = re.compile(r"""\b(?:meshdir|texturedir|assetdir)\s*=\s*["']([^"']+)""")
_TEXTS = (".xml", ".mjcf", ".urdf")


def copy_model(file: Path, target: Path) -> None:
    """Copies a model file into the folder ``target``, and the files that it names below its own folder, at the same
    places relative to it; those in packages (``package://``) or at absolute paths stay where they are.

    Raises:
        ConfigError: a file that it names lies beside its folder, from where it cannot come along.
    """
    source = file.resolve().parent
    for path in _with_references(file.resolve()):
        if not path.is_relative_to(source):
            raise ConfigError(f"{file} names {path}, which lies outside of {source}. Put both into one folder first.")
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def _with_references(file: Path) -> list[Path]:
    """Returns ``file`` and all files that it names, and those that these name."""
    found, waiting = [file], [file]
    while waiting:
        text_file = waiting.pop()
        if text_file.suffix.lower() not in _TEXTS:
            continue
        text = text_file.read_text(errors="replace")
        folders = [file.parent, text_file.parent, *(file.parent / folder for folder in _FOLDER.findall(text))]
        for name in _REFERENCE.findall(text):
            paths = [(folder / name).resolve() for folder in folders if not Path(name).is_absolute()]
            path = next((path for path in paths if path.is_file()), None)
            if path is not None and path not in found:
                found.append(path)
                waiting.append(path)
    return found
