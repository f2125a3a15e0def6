"""What software and hardware produced a result."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from typing import Any

import torch

import lab_core
from lab_core.registry import task_ids, task_module, task_package

_PACKAGES = ("gymnasium", "mujoco", "mujoco-warp", "newton", "numpy", "rsl-rl-lib", "tensordict", "torch", "warp-lang")


def versions(task_id: str | None = None) -> dict[str, Any]:
    """Package versions, Python, operating system, processor and GPU, git revision and command line, and where the task
    comes from, if there is one: :func:`task_origin`."""
    return {
        **({"task": task_origin(task_id)} if task_id else {}),
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


def task_origin(task_id: str) -> dict[str, Any]:
    """Package and version that offer a task, None for one registered by a script, and :func:`git_revision` of the place
    where it is defined; nothing but its id where nobody offers it, as in a run that a program began without a task."""
    if task_id not in task_ids():
        return {"id": task_id, "package": None, "version": None, "git": None}
    package = task_package(task_id)
    installed = package if package in {item.name for item in distributions()} else None
    file = getattr(import_module(task_module(task_id)), "__file__", None)
    return {
        "id": task_id,
        "package": installed,
        "version": version(installed) if installed else None,
        "git": git_revision(Path(file).resolve().parent) if file else None,
    }


def git_revision(folder: Path | None = None) -> dict[str, Any] | None:
    """Revision of the checkout that holds ``folder``, without one of that which lab_core was imported from, and whether
    it was changed; None outside a checkout."""
    folder = folder or Path(lab_core.__file__).parent

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
