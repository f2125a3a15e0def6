"""Small functions for kernels of terms, with the formulas and the handling of NaN of :mod:`torch`.

Modules of terms switch contraction off (``fuse_fp``): torch rounds every product before it adds it, and so do twins.
"""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

import math

import warp as wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

TWO_PI = wp.constant(2.0 * math.pi)


@wp.func
def square(x: wp.float32) -> wp.float32:
    return x * x


@wp.func
def at_least_zero(x: wp.float32) -> wp.float32:
    """``x.clamp(min=0)``; NaN passes through, unlike ``wp.max``."""
    if x < 0.0:
        return 0.0
    return x


@wp.func
def greater(a: wp.float32, b: wp.float32) -> wp.float32:
    """``torch.maximum``; NaN passes through, unlike ``wp.max``."""
    if wp.isnan(a) or a >= b:
        return a
    return b


@wp.func
def wrap_to_pi(angle: wp.float32) -> wp.float32:
    """Twin of :func:`lab_core.math.wrap_to_pi`."""
    turns = wp.ceil(wp.abs(angle) / TWO_PI - 0.5)
    return angle - TWO_PI * turns * wp.sign(angle)


@wp.func
def norm2(x: wp.float32, y: wp.float32) -> wp.float32:
    return wp.sqrt(x * x + y * y)


@wp.func
def clamp(x: wp.float32, low: wp.float32, high: wp.float32) -> wp.float32:
    """``torch.clamp``: NaN passes through, and ``high`` wins where ``low`` is above it."""
    if x < low:
        return wp.min(low, high)
    if x > high:
        return high
    return x


@wp.func
def multiply_add(a: wp.float32, b: wp.float32, c: wp.float32) -> wp.float32:
    """``a * b + c`` as ``torch.addcmul`` computes it: rounded once. The product is exact in float64."""
    return wp.float32(wp.float64(a) * wp.float64(b) + wp.float64(c))


@wp.func
def normalized_position(position: wp.float32, limits: wp.vec2) -> wp.float32:
    """Of a joint: -1 at the lower and 1 at the upper limit."""
    return 2.0 * (position - 0.5 * (limits[0] + limits[1])) / (limits[1] - limits[0])
