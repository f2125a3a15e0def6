"""What every tool needs to know about this workspace: its packages, their order and their dependencies."""

from __future__ import annotations

import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def layers() -> list[list[str]]:
    """Packages by layer, highest first, as the import contract states them; those of one layer are independent."""
    contracts = read_toml(ROOT / "pyproject.toml")["tool"]["importlinter"]["contracts"]
    order = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [re.split(r"\s*\|\s*", layer) for layer in order]


def packages() -> list[str]:
    """All packages, lowest first, so that each stands behind everything that it may import."""
    return [package for layer in reversed(layers()) for package in layer]


def importable_from(package: str) -> set[str]:
    """The packages that ``package`` may name: itself and all of the lower layers."""
    level = next(index for index, layer in enumerate(layers()) if package in layer)
    return {package, *(name for layer in layers()[level + 1 :] for name in layer)}


def package_dir(package: str) -> Path:
    return ROOT / "source" / package


def project(package: str) -> dict[str, Any]:
    """The ``[project]`` table of the package's pyproject.toml."""
    return read_toml(package_dir(package) / "pyproject.toml")["project"]


def siblings(package: str) -> set[str]:
    """The packages of this workspace that ``package`` declares as dependencies."""
    names = {re.split(r"[^\w-]", requirement, maxsplit=1)[0] for requirement in project(package)["dependencies"]}
    return names & set(packages())


def program(name: str) -> str:
    """Path of a command-line program of the running Python environment."""
    return str(Path(sys.executable).with_name(name))
