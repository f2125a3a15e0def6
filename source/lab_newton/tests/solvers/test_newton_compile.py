"""What is compiled before the first step."""

from __future__ import annotations

import subprocess
import sys

import warp as wp

from lab_newton import MuJoCoSolverCfg
from lab_newton.compile import KERNEL_MODULES, compile_modules, load_kernels
from lab_warp import capture_torch, eager
from lab_warp.progress import Progress, quiet_warp


def test_every_listed_module_exists_and_is_loaded():
    class Counter(Progress):
        texts: list[str] = []

        def show(self, text: str) -> None:
            self.texts.append(text)

    modules = {*MuJoCoSolverCfg.kernel_modules, *KERNEL_MODULES}
    with quiet_warp():
        compile_modules(sorted(modules), wp.get_device("cpu"), Counter(""))
    assert Counter.texts[-1] == f"{len(modules)}/{len(modules)} modules"


def test_a_backend_does_not_wait_for_the_viewer():
    code = "import sys, lab_newton.backend; sys.exit('viser' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loading_kernels_passes_over_torch():
    array, calls = wp.zeros(3, dtype=wp.int32, device="cpu"), []

    def step() -> None:
        wp.copy(array, wp.ones(3, dtype=wp.int32, device="cpu"))
        capture_torch(calls.append, "network")
        eager(calls.append, "eager")

    load_kernels(step, wp.get_device("cpu"))
    assert calls == []
    assert not wp.get_device("cpu").is_capturing
    step()
    assert calls == ["network", "eager"]
