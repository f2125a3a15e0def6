"""Kernels beside those of MuJoCo Warp: what overflowed, and what bodies on slides weigh."""

from __future__ import annotations

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def latch_overflow(
    overflow: wp.array[wp.int32],
    constraint_rows: wp.array[wp.int32],
    contacts: wp.array[wp.int32],
    candidates: wp.array[wp.int32],
    latched: wp.array[wp.int32],
    peak_rows: wp.array[wp.int32],
    peak_contacts: wp.array[wp.int32],
):
    """Keeps every bit of ``overflow`` (N,), and the largest needs, until they are read. Launch over N."""
    world = wp.tid()
    latched[world] = latched[world] | overflow[world]
    peak_rows[world] = wp.max(peak_rows[world], constraint_rows[world])
    if world == 0:
        peak_contacts[0] = wp.max(peak_contacts[0], wp.max(contacts[0], candidates[0]))


@wp.kernel
def weigh_sliding_bodies(
    on_slides: wp.array[wp.int32],
    body_mass: wp.array2d[wp.float32],
    invweight: wp.array2d[wp.vec2],
):
    """Gives bodies on slides alone the inverse weights (R, B) that MuJoCo gives them: 1 / mass, and none about axes.

    MuJoCo Warp takes the mean over three axes, a third for a single slide, and contacts would be three times as hard.
    Launch over the rows of ``invweight``, which may be fewer than worlds, and bodies.
    """
    row, body = wp.tid()
    if on_slides[body] != 0:
        mass = body_mass[row % body_mass.shape[0], body]
        invweight[row, body] = wp.vec2(1.0 / wp.max(mass, 1.0e-15), 0.0)
