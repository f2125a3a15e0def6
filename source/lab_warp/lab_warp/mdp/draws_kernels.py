"""Random draws for kernels.

The functions take the state of an environment's stream last, and return it, advanced, after what they drew.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from lab_warp.math_kernels import clamp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

ADD, SCALE, ABS = wp.constant(0), wp.constant(1), wp.constant(2)
UNIFORM, LOG_UNIFORM, GAUSSIAN = wp.constant(0), wp.constant(1), wp.constant(2)


@wp.func
def uniform(low: Any, high: Any, rng: wp.uint32):
    """One draw per component of a vector, in order."""
    draw = low
    for i in range(len(low)):
        draw[i] = wp.randf(rng, low[i], high[i])
    return draw, rng


@wp.func
def any_rotation(rng: wp.uint32):
    """A quaternion, uniform over all rotations: four independent normal variables point into a uniform direction."""
    x = wp.randn(rng)
    y = wp.randn(rng)
    z = wp.randn(rng)
    w = wp.randn(rng)
    return wp.normalize(wp.quat(x, y, z, w)), rng


@wp.struct
class Draw:
    """How a property is drawn."""

    distribution: wp.int32
    params: wp.vec2
    operation: wp.int32


@wp.func
def drawn(how: Draw, default: wp.float32, rng: wp.uint32):
    """The property, from a draw and its default."""
    low = how.params[0]
    high = how.params[1]
    draw = wp.float32(0.0)
    if how.distribution == UNIFORM:
        draw = wp.randf(rng, low, high)
    elif how.distribution == LOG_UNIFORM:
        draw = clamp(wp.exp(wp.randf(rng, wp.log(low), wp.log(high))), low, high)
    else:
        draw = low + high * wp.randn(rng)
    if how.operation == ADD:
        draw = default + draw
    elif how.operation == SCALE:
        draw = default * draw
    return draw, rng
