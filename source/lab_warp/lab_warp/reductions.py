"""Sums over environments whose result does not depend on scheduling."""

from __future__ import annotations

import warp as wp

from lab_warp import reductions_kernels as kernels

LANES = 1024
"""Threads that share the work on one column on a GPU. A CPU has one lane, which takes the environments in order."""


def masked_means(
    values: wp.array, mask: wp.array, count: wp.array, out: wp.array, scale: float, device: wp.Device
) -> None:
    """``out[k] = scale * mean of values[:, k]`` over the environments of ``mask``.

    Each lane adds up its environments in order, then the lanes are added in a fixed tree. So results repeat bit for
    bit on a device; devices differ by rounding. Numbers outside the mask do not matter, even if they are not finite.

    Args:
        values: (N, K) float32, of any strides.
        mask: (N,) bool.
        count: (1,) int32, number of environments in ``mask``. Where it is 0, ``out`` is left alone.
        out: (K,) float32.
        scale: Factor.
        device: Device of all arrays.
    """
    columns = values.shape[1]
    wp.launch_tiled(
        kernels.masked_means,
        dim=[columns],
        inputs=[values, mask, count, scale],
        outputs=[out],
        block_dim=LANES,
        device=device,
    )


def mean_of_integers(values: wp.array, out: wp.array, device: wp.Device) -> None:
    """``out[0] = mean of values``, exact up to the last division where the sum is below 2^24.

    Args:
        values: (N,) int64.
        out: (1,) float32.
        device: Device of both.
    """
    wp.launch_tiled(kernels.mean_of_integers, dim=[1], inputs=[values], outputs=[out], block_dim=LANES, device=device)
