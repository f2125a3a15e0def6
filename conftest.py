"""How every suite runs: the same each time, on all cores, each kernel compiled once.

Nothing here is a fixture; each package's suite still runs alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

MOST_WORKERS = 8  # each holds torch and its own robots in memory

settings.register_profile("repeat", derandomize=True, deadline=None, database=None)
# Where CI is set, hypothesis derandomises every profile that does not say otherwise.
settings.register_profile("search", derandomize=False, max_examples=1000, deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("LAB_HYPOTHESIS", "repeat"))


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker per core for folders, none for named files: starting them takes longer than such a run."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    if all(Path(argument.partition("::")[0]).is_file() for argument in config.args):
        return 0
    return min(cores(), MOST_WORKERS)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_configure(config: pytest.Config) -> None:
    """Shares the cores among the workers, and the programs that their tests start, before any of them loads torch."""
    if workers := len(getattr(config.option, "tx", None) or ()):
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // workers)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what needs a CUDA device where there is none, and hands out the files with most slow tests first, so that
    no worker is left alone with one at the end.

    Workers must agree on the names of tests, so that none may hold the address of an object.
    """
    if named := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"The name of a test holds an address; give its parameter an id: {named[0]}")
    if (on_gpu := [item for item in items if item.get_closest_marker("gpu")]) and not has_cuda():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
    if hasattr(config, "workerinput"):
        slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
        items.sort(key=lambda item: -slow[item.path])


def has_cuda() -> bool:
    import torch  # here: suites without a test for a GPU do without it

    return torch.cuda.is_available()


def pytest_collection_finish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput") and "warp" in sys.modules:
        compile_each_module_once(sys.modules["warp"])


def compile_each_module_once(warp: Any) -> None:
    """Lets a worker that needs a kernel module wait for another one that compiles it, instead of doing so too."""
    module = warp._src.context.Module
    compile_module = module._compile

    def compile_or_wait(self: Any, *args: Any, **kwargs: Any) -> bool:
        with locked(Path(warp.config.kernel_cache_dir) / "locks" / self.name):
            return compile_module(self, *args, **kwargs)  # finds in the cache what came while it waited

    module._compile = compile_or_wait


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    import fcntl  # not on Windows, where the suite runs with `-n 0`

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
