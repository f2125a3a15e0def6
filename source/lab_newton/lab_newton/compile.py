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

import warp as wp

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
    progress.show(f"0/{len(modules)} modules")
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 8)) as pool:
        jobs = [pool.submit(wp.load_module, module, device, block_dim=block_dim) for module in modules]
        for done, job in enumerate(as_completed(jobs), start=1):
            job.result()
            progress.show(f"{done}/{len(jobs)} modules")


def load_kernels(function: Callable[[], None], device: wp.Device) -> None:
    """Loads the kernels that ``function`` launches, without running them: captures it and drops the graph.

    What it calls through ``lab_warp.eager`` or ``lab_warp.capture_torch`` is passed over.
    """
    gc.collect()  # what is finalised during a capture would become part of it
    gc.disable()
    try:
        with skipping_eager_calls(), wp.ScopedCapture(device=device):
            function()
    finally:
        gc.enable()


def leave_out_derivatives(names: Sequence[str]) -> None:
    """Compiles kernel modules without derivatives, unless they are loaded already.

    Nothing here differentiates the physics, and derivatives take three quarters of the time to compile.
    """
    for name in names:
        wp.set_module_options({"enable_backward": False}, module=importlib.import_module(name))
