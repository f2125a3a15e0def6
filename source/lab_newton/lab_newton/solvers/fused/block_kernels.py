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


@wp.func_native(
    snippet="""
#if defined(__CUDA_ARCH__)
    const float4 v = *reinterpret_cast<const float4*>(&wp::index(array, i));
    return wp::vec_t<4, float>(v.x, v.y, v.z, v.w);
#else
    return wp::index(array, i);
#endif
"""
)
def load(array: wp.array[wp.vec4], i: int) -> wp.vec4:
    """An element that begins at a multiple of 16 bytes, in one access of a GPU; Warp's own takes four."""


@wp.func_native(
    snippet="""
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<float4*>(&wp::index(array, i)) = make_float4(value[0], value[1], value[2], value[3]);
#else
    wp::index(array, i) = value;
#endif
"""
)
def store(array: wp.array[wp.vec4], i: int, value: wp.vec4):
    """Writes an element as :func:`load` reads it."""
