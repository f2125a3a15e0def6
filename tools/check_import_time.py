"""Gate: what ``lab --help`` and ``lab list`` stand on starts without torch, Warp or a physics engine."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "warp", "newton", "mujoco", "mujoco_warp")
LIGHT = ("lab_core", "lab_core.config", "lab_core.cli", "lab_core.registry")
REPORT = f"; import sys; print('heavy:', *(name for name in {HEAVY} if name in sys.modules))"


def problem(module: str) -> str | None:
    """What is wrong with importing ``module`` in a fresh process, or None."""
    child = subprocess.run([sys.executable, "-c", f"import {module}{REPORT}"], capture_output=True, text=True)
    if child.returncode != 0:
        return f"import {module} failed:\n{child.stderr}"
    heavy = child.stdout.splitlines()[-1].removeprefix("heavy:").split()
    return f"import {module} also imports {', '.join(heavy)}" if heavy else None


def main() -> int:
    found = [text for module in LIGHT if (text := problem(module))]
    print("\n".join(found) or f"Import time: {', '.join(LIGHT)} import none of {', '.join(HEAVY)}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
