"""Kernels of the stages of tests."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def add(value: wp.int32, out: wp.array[wp.int32]):
    i = wp.tid()
    out[i] = out[i] + value


@wp.kernel
def scale(value: wp.int32, out: wp.array[wp.int32]):
    i = wp.tid()
    out[i] = out[i] * value
