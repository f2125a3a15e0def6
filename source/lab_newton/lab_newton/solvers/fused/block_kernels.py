"""What the threads of a block do together.

A block of threads works on one environment; a CPU has blocks of one thread.
"""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func_native(snippet="WP_TILE_SYNC();")
def sync():
    """Waits until all threads of the block are here, and have written what they wrote before."""


@wp.func
def total(value: float) -> float:
    """Returns the sum of ``value`` over the block, to all its threads."""
    return wp.tile_reduce(wp.add, wp.tile(value))[0]


@wp.func
def total3(value: wp.vec3) -> wp.vec3:
    """Returns the sum of ``value`` over the block, to all its threads."""
    return wp.tile_reduce(wp.add, wp.tile(value, preserve_type=True))[0]
