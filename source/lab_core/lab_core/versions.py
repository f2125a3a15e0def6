"""What software and hardware produced a result."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

import torch

import lab_core

_PACKAGES = ("gymnasium", "mujoco", "mujoco-warp", "newton", "numpy", "rsl-rl-lib", "tensordict", "torch", "warp-lang")


def versions() -> dict[str, Any]:
    """Package versions, Python, operating system, processor and GPU, git revision and command line."""
    return {
        "packages": package_versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cuda": torch.version.cuda,
        "git": git_revision(),
        "command": sys.argv,
    }


def package_versions() -> dict[str, str]:
    """Versions of all lab packages and of the libraries that decide results, where installed."""
    lab = sorted(
        {item.name for item in distributions() if item.name and item.name.replace("-", "_").startswith("lab_")}
    )
    found = {}
    for name in (*lab, *_PACKAGES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> dict[str, Any] | None:
    """Revision of the checkout that lab_core was imported from and whether it was changed; None outside a checkout."""
    folder = Path(lab_core.__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    try:
        return {
            "revision": git("rev-parse", "HEAD"),
            "dirty": bool(git("--no-optional-locks", "status", "--porcelain", "--untracked-files=no")),
        }
    except (OSError, subprocess.SubprocessError):
        return None
