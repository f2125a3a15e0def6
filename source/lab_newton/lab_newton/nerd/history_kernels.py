"""Kernels of the history of learned models."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def forget(mask: wp.array[wp.bool], length: wp.array[wp.int64]):
    """Launch over worlds; ``mask`` may be longer."""
    world = wp.tid()
    if mask[world]:
        length[world] = wp.int64(0)
