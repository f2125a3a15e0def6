"""``lab info``: what this machine and installation offer."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from lab_core.cli.console import print_table, print_warning

_LIBRARIES = ("torch", "warp-lang", "newton", "mujoco", "mujoco-warp", "rsl-rl-lib", "gymnasium", "numpy")


@dataclass(kw_only=True)
class InfoArgs:
    """``lab info`` has no options."""


def main(argv: list[str]) -> int:
    """Show versions, processor, memory and GPU, with warnings about what limits training."""
    from lab_core.cli.overrides import parse

    parse(InfoArgs(), argv, prog="lab info", description=f"{main.__doc__}\n\nExample: lab info")
    rows, problems = collect(PROBES)
    print_table(("what", "value"), rows)
    for problem in problems:
        print_warning(problem)
    return 0


def collect(probes: dict[str, Callable[[], dict[str, str]]]) -> tuple[list[tuple[str, str]], list[str]]:
    """Rows and warnings of ``probes``. One that fails, or warns, adds a warning and stops nothing."""
    rows: list[tuple[str, str]] = []
    problems: list[str] = []
    for name, probe in probes.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                rows += probe().items()
            except Exception as error:
                problems.append(f"{name} cannot be determined: {type(error).__name__}: {error}")
        problems += [" ".join(str(warning.message).split()) for warning in caught]
    return rows, problems


def lab_versions() -> dict[str, str]:
    """Versions of ``lab_core`` and of every installed package that builds on it."""
    found = {}
    for distribution in importlib.metadata.distributions():
        needed = {re.split(r"[^\w.-]", requirement)[0].replace("-", "_") for requirement in distribution.requires or []}
        name = (distribution.metadata["Name"] or "").replace("-", "_")
        if name == "lab_core" or "lab_core" in needed:
            found[name] = distribution.version
    return dict(sorted(found.items()))


def _library_versions() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found


def _system() -> dict[str, str]:
    return {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}


def _cores() -> dict[str, str]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"CPU cores": f"{usable} usable of {os.cpu_count()}"}


def _memory() -> dict[str, str]:
    return {"memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"}


def _gpus() -> dict[str, str]:
    if importlib.util.find_spec("torch") is None:
        warnings.warn("torch is not installed: nothing can be trained", stacklevel=2)
        return {}
    import torch

    rows = {"CUDA of torch": torch.version.cuda or "none (CPU build)"}
    if not torch.cuda.is_available():
        warnings.warn("no CUDA GPU is usable: training runs on the CPU", stacklevel=2)
        if torch.version.cuda is None and shutil.which("nvidia-smi"):
            warnings.warn("there is an NVIDIA driver, but this torch is a CPU build", stacklevel=2)
        return rows
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        rows[f"GPU cuda:{index}"] = f"{properties.name}, {properties.total_memory / 2**30:.1f} GiB"
    return rows


def _driver() -> dict[str, str]:
    if not shutil.which("nvidia-smi"):
        return {"NVIDIA driver": "none"}
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    if answer.returncode:
        raise RuntimeError((answer.stderr or answer.stdout).strip())
    return {"NVIDIA driver": answer.stdout.split("\n")[0].strip()}


PROBES: dict[str, Callable[[], dict[str, str]]] = {
    "versions of lab packages": lab_versions,
    "versions of libraries": _library_versions,
    "system": _system,
    "CPU cores": _cores,
    "memory": _memory,
    "NVIDIA driver": _driver,
    "GPUs": _gpus,
}
