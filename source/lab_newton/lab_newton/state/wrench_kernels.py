"""Kernels of external forces and torques."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def write(
    places: wp.array[wp.int32],
    bodies_per_world: wp.int32,
    wrench: wp.array2d[wp.spatial_vector],
    body_f: wp.array[wp.spatial_vector],
):
    """Launch over (N, B)."""
    world, i = wp.tid()
    body_f[world * bodies_per_world + places[i]] = wrench[world, i]


@wp.kernel
def find(wrench: wp.array2d[wp.spatial_vector], worlds: wp.array[wp.bool]):
    """Marks worlds with a force or torque, until somebody clears the marks. Launch over (N, B)."""
    world, i = wp.tid()
    if wp.length_sq(wrench[world, i]) != 0.0:
        worlds[world] = True


@wp.kernel
def clear(mask: wp.array[wp.bool], wrench: wp.array2d[wp.spatial_vector]):
    """Launch over (N, B)."""
    world, i = wp.tid()
    if mask[world]:
        wrench[world, i] = wp.spatial_vector()
