"""Kernels of masks of worlds."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def clear_flags(flags: wp.array[wp.bool]):
    """Launch over N. In a graph CUDA takes several times longer for a memset of so few bytes."""
    flags[wp.tid()] = False


@wp.kernel
def spread_mask(
    mask: wp.array[wp.bool],
    articulations_per_world: wp.int32,
    world_mask: wp.array[wp.bool],
    articulation_mask: wp.array[wp.bool],
    count: wp.array[wp.int32],
):
    """World mask (N,) -> Newton's masks over worlds (N + 1,) and over articulations. Launch over N.

    Adds the number of selected worlds to ``count[0]`` where it is given.
    """
    world = wp.tid()
    selected = mask[world]
    world_mask[world] = selected
    for i in range(articulations_per_world):
        articulation_mask[world * articulations_per_world + i] = selected
    if count and selected:
        wp.atomic_add(count, 0, 1)
