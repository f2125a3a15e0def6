"""Compiling the physics kernels, several at once.

Warp compiles a kernel module when a kernel of it is first launched, one after another, and keeps the result in its
cache. The first run of a solver on a machine spends most of its time there.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

import warp as wp

from lab_newton.kernel_launches import KernelLaunches
from lab_warp import skipping_eager_calls
from lab_warp.progress import Progress

KERNEL_MODULES = (
    "newton._src.sim.articulation",
    "newton._src.geometry.bvh",
    "lab_newton.state.entity_kernels",
    "lab_newton.state.property_kernels",
    "lab_newton.state.health_kernels",
    "lab_newton.mask_kernels",
)
"""Modules that every model needs, whatever its solver."""


def compile_modules(names: Sequence[str], device: wp.Device, progress: Progress) -> None:
    """Compiles and loads kernel modules on all cores; fast for what is in the cache."""
    modules = [importlib.import_module(name) for name in names]
    # Warp launches CPU kernels with blocks of one thread; the block size is part of the compiled module.
    block_dim = 1 if device.is_cpu else None
    _run_all([partial(wp.load_module, module, device, block_dim=block_dim) for module in modules], "modules", progress)


def load_kernels(function: Callable[[], None], device: wp.Device, progress: Progress | None = None) -> None:
    """Loads the kernels that ``function`` launches, without running them: captures it and drops the graph.

    Those that are not loaded yet are compiled on all cores before: a first capture only finds out which these are.
    What it calls through ``lab_warp.eager`` or ``lab_warp.capture_torch`` is passed over.
    """
    launches = KernelLaunches(device)
    with launches.held_back():
        _capture(function, device)
    _run_all(launches.loads(), "kernels of this model", progress)
    _capture(function, device)


def _capture(function: Callable[[], None], device: wp.Device) -> None:
    gc.collect()  # what is finalised during a capture would become part of it
    gc.disable()
    try:
        with skipping_eager_calls(), wp.ScopedCapture(device=device):
            function()
    finally:
        gc.enable()


def _run_all(jobs: Sequence[Callable[[], object]], what: str, progress: Progress | None) -> None:
    show = (lambda text: None) if progress is None else progress.show
    show(f"0/{len(jobs)} {what}")
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        running = [pool.submit(job) for job in jobs]
        for done, job in enumerate(as_completed(running), start=1):
            job.result()
            show(f"{done}/{len(jobs)} {what}")


def leave_out_derivatives(names: Sequence[str]) -> None:
    """Compiles kernel modules without derivatives, unless they are loaded already.

    Nothing here differentiates the physics, and derivatives take three quarters of the time to compile.
    """
    for name in names:
        wp.set_module_options({"enable_backward": False}, module=importlib.import_module(name))
