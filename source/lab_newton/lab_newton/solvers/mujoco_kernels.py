"""Kernel that keeps what overflowed."""

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
