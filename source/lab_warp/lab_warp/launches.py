"""Launching the kernel of a twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp as wp

from lab_warp.env import WarpEnv

Kernel = Callable[..., Any] | wp.Kernel
"""A kernel, which type checkers read as the function that it was written as."""


def per_env(env: WarpEnv, kernel: Kernel, out: wp.array, *inputs: Any) -> None:
    """Launches a kernel with one thread per environment, which takes ``inputs`` and then ``out``."""
    wp.launch(kernel, dim=env.num_envs, inputs=inputs, outputs=[out], device=env.wp_device)


def per_element(env: WarpEnv, kernel: Kernel, out: wp.array, *inputs: Any) -> None:
    """Launches a kernel with one thread per element of ``out`` (N, D), which takes ``inputs`` and then ``out``."""
    wp.launch(kernel, dim=out.shape, inputs=inputs, outputs=[out], device=env.wp_device)
