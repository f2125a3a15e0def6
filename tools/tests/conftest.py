"""A small copy of this workspace: the real tools and settings around packages that are nearly empty."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import workspace


@dataclass
class Skeleton:
    """The copy, with ways to put a fault into it and to run a tool on it."""

    root: Path

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        assert old in text
        self.write(path, text.replace(old, new))

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")

    def run(self, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the copied tools; its output holds both streams."""
        command = [sys.executable, str(self.root / "tools" / tool), *arguments]
        return subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def git(self, *arguments: str) -> str:
        author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        return subprocess.run(
            ["git", *author, *arguments], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")


def package_pyproject(package: str) -> str:
    """A pyproject.toml with the real siblings and nothing that needs a download."""
    siblings = ", ".join(f'"{name}>=0.1,<0.2"' for name in sorted(workspace.siblings(package)))
    return f"""[build-system]
requires = ["uv_build>=0.8"]
build-backend = "uv_build"

[project]
name = "{package}"
version = "0.1.0"
readme = "README.md"
requires-python = ">=3.11"
dependencies = [{siblings}]

[tool.uv.build-backend]
module-root = ""
"""


@pytest.fixture
def skeleton(tmp_path: Path) -> Skeleton:
    copy = Skeleton(tmp_path / "workspace")
    shutil.copytree(
        workspace.ROOT / "tools", copy.root / "tools", ignore=shutil.ignore_patterns("tests", "__pycache__")
    )
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(workspace.ROOT / name, copy.root / name)
    for package in workspace.packages():
        imports = "".join(f"import {name}\n" for name in sorted(workspace.siblings(package)))
        body = f"\n{imports}\n__all__ = {sorted(workspace.siblings(package))!r}\n".replace("'", '"') if imports else ""
        copy.write(f"source/{package}/{package}/__init__.py", f'"""A package."""\n{body}\n__version__ = "0.1.0"\n')
        copy.write(f"source/{package}/pyproject.toml", package_pyproject(package))
        copy.write(f"source/{package}/README.md", f"# {package}\n")
        copy.write(f"source/{package}/CHANGELOG.md", "# Changelog\n\n<!-- towncrier release notes start -->\n")
        copy.write(f"source/{package}/changelog.d/.gitkeep", "")
    for module in ("config", "cli", "registry"):
        copy.write(f"source/lab_core/lab_core/{module}.py", '"""A module."""\n')
    return copy
