"""Compiling the physics kernels: several at once, and with a word to the user.

Warp compiles a kernel module when a kernel of it is first launched, one after another, and keeps the result in its
cache. The first run of a solver on a machine spends most of its time there.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from types import TracebackType

import warp as wp

_FORWARD_ONLY = (
    "newton._src.sim.articulation",
    "newton._src.solvers.mujoco.kernels",
    "newton._src.geometry.bvh",
    "mujoco_warp._src.set_const",
)
"""Modules with derivatives by default. Nothing here differentiates the physics, and they take three quarters of the
time to compile."""

MUJOCO_MODULES = (
    "newton._src.sim.articulation",
    "newton._src.solvers.mujoco.kernels",
    "mujoco_warp._src.smooth",
    "mujoco_warp._src.forward",
    "mujoco_warp._src.derivative",
    "mujoco_warp._src.passive",
    "newton._src.geometry.bvh",
    "mujoco_warp._src.set_const",
    "mujoco_warp._src.support",
    "mujoco_warp._src.solver",
    "lab_newton.kernels",
    "lab_newton.properties",
)
"""Modules that every MuJoCo Warp model needs, those that take longest first."""


def compile_modules(names: Sequence[str], device: wp.Device, progress: Progress) -> None:
    """Compiles and loads kernel modules on all cores; fast for what is in the cache."""
    modules = [importlib.import_module(name) for name in names]
    # Warp launches CPU kernels with blocks of one thread; the block size is part of the compiled module.
    block_dim = 1 if device.is_cpu else None
    progress.show(f"0/{len(modules)} modules")
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 8)) as pool:
        jobs = [pool.submit(wp.load_module, module, device, block_dim=block_dim) for module in modules]
        for done, job in enumerate(as_completed(jobs), start=1):
            job.result()
            progress.show(f"{done}/{len(jobs)} modules")


def load_kernels(function: Callable[[], None], device: wp.Device) -> None:
    """Loads the kernels that ``function`` launches, without running them: records it and drops the recording."""
    gc.collect()  # what is finalised during a recording would become part of it
    gc.disable()
    try:
        with wp.ScopedCapture(device=device):
            function()
    finally:
        gc.enable()


def leave_out_derivatives() -> None:
    """Compiles Newton's kernels without their derivatives, unless they are loaded already."""
    for name in _FORWARD_ONLY:
        wp.set_module_options({"enable_backward": False}, module=importlib.import_module(name))


@contextmanager
def quiet_warp() -> Iterator[None]:
    """Keeps Warp from printing a banner and a line per kernel module, unless it was told to be more talkative."""
    level = wp.config.log_level
    if level == wp.LOG_INFO:
        wp.config.log_level = wp.LOG_WARNING
    try:
        yield
    finally:
        wp.config.log_level = level


class Progress:
    """One line on stderr, about something that is only worth mentioning when it takes long.

    Args:
        title: What is going on.
        quiet_for: Seconds before the line appears.
        interval: Seconds between updates of the time.
    """

    def __init__(self, title: str, *, quiet_for: float = 5.0, interval: float = 1.0) -> None:
        self._title = title
        self._text = "starting"
        self._quiet_for = quiet_for
        self._interval = interval
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._shown = False

    def show(self, text: str) -> None:
        """Sets what is behind the title at the next update."""
        self._text = text

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._ticker.join()
        if self._shown:
            self._write("failed" if error else "done", last=True)

    def _tick(self) -> None:
        # Without a terminal a line is not overwritten, so give few of them.
        interval = self._interval if sys.stderr.isatty() else 10 * self._interval
        wait = self._quiet_for
        while not self._stop.wait(wait):
            self._write(self._text)
            wait = interval

    def _write(self, text: str, last: bool = False) -> None:
        self._shown = True
        line = f"{self._title}: {text}, {time.monotonic() - self._start:.0f} s"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{line}" + ("\n" if last else ""))
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
