"""Times a peer's environment as ``lab bench`` times ours. Runs with the peer's packages, so it imports torch alone."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import time
import types
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch

WARMUP_STEPS = 30
ACTION_SETS = 64


def time_steps(
    step: Callable[[torch.Tensor], object], width: int, settings: dict[str, Any], result_file: Path
) -> float:
    """Returns the mean duration of a step [ms], with the actions that ``lab bench`` draws.

    After warming up it says so with a file beside ``result_file``, and waits for another that lets it begin.
    """
    device = torch.device(settings["device"])
    generator = torch.Generator(device).manual_seed(0)
    shape = (min(settings["steps"], ACTION_SETS), settings["num_envs"], width)
    actions = settings["action_std"] * torch.randn(shape, device=device, generator=generator)
    with torch.inference_mode():
        for i in range(WARMUP_STEPS):
            step(actions[i % len(actions)])
        synchronize(device)
        result_file.with_suffix(".ready").touch()
        while not result_file.with_suffix(".go").exists():
            time.sleep(0.1)
        start = time.perf_counter()
        for i in range(settings["steps"]):
            step(actions[i % len(actions)])
        synchronize(device)
    return (time.perf_counter() - start) / settings["steps"] * 1e3


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def result(task: str, env_step_ms: float, settings: dict[str, Any], packages: Sequence[str]) -> dict[str, Any]:
    device = torch.device(settings["device"])
    return {
        "task": task,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "num_envs": settings["num_envs"],
        "env_step_ms": round(env_step_ms, 4),
        "env_steps_per_s": round(settings["num_envs"] / env_step_ms * 1e3),
        "versions": {name: _version(name) for name in packages},
    }


def pretend_installed(*packages: str) -> None:
    """Lets imports of packages that are not installed succeed: viewers and loggers, which a timing never calls."""
    sys.meta_path.append(_Pretender(packages))


class _Pretender(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        # Classes can be derived from, all else be called.
        module.__getattr__ = lambda name: type(name, (), {}) if name[0].isupper() else MagicMock()
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
