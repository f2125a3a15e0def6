"""Random draws for terms: what a configuration says, checked, and the functions that kernels draw with.

These functions take the state of an environment's stream last, and return it, advanced, after what they drew.
"""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from lab_core.errors import unknown_name_message
from lab_core.managers import TermError
from lab_core.managers.manager_base import check_range
from lab_core.mdp.events_properties import Distribution, Operation, Params
from lab_warp.mdp.functions import clamp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_OPERATIONS: dict[Operation, int] = {"add": 0, "scale": 1, "abs": 2}
_DISTRIBUTIONS: dict[Distribution, int] = {"uniform": 0, "log_uniform": 1, "gaussian": 2}
_ADD, _SCALE = wp.constant(_OPERATIONS["add"]), wp.constant(_OPERATIONS["scale"])
_UNIFORM, _LOG_UNIFORM = wp.constant(_DISTRIBUTIONS["uniform"]), wp.constant(_DISTRIBUTIONS["log_uniform"])
GAUSSIAN = wp.constant(_DISTRIBUTIONS["gaussian"])


def bounds(
    ranges: Mapping[str, Sequence[float]], names: Sequence[str], what: str
) -> tuple[Sequence[float], Sequence[float]]:
    """Lower and upper bounds of the components ``names``; those without a range are 0.

    Raises:
        TermError: ``ranges``, which errors call ``what``, has another component, or one that is no range.
    """
    for key, value in ranges.items():
        if key not in names:
            raise TermError(f"{what}: {unknown_name_message('component', key, names)}")
        check_range(value, f"{what}[{key!r}]")
    low, high = zip(*(ranges.get(key, (0.0, 0.0)) for key in names), strict=True)
    return low, high


@wp.func
def uniform(low: Any, high: Any, rng: wp.uint32):
    """One draw per component of a vector, in order."""
    draw = low
    for i in range(len(low)):
        draw[i] = wp.randf(rng, low[i], high[i])
    return draw, rng


@wp.struct
class Draw:
    """How a property is drawn."""

    distribution: wp.int32
    params: wp.vec2
    operation: wp.int32


def draw_of(params: Params, operation: Operation, distribution: Distribution) -> Draw:
    """Raises :class:`TermError` for parameters that the distribution cannot have."""
    if distribution == "gaussian":
        if params[1] < 0.0:
            raise TermError(f"The standard deviation must not be negative, got {params[1]}.")
    else:
        check_range(params, f"parameters of a {distribution} draw")
        if distribution == "log_uniform" and params[0] <= 0.0:
            raise TermError(f"Bounds of a log-uniform range must be positive, got {tuple(params)}.")
    draw = Draw()
    draw.distribution, draw.operation = _DISTRIBUTIONS[distribution], _OPERATIONS[operation]
    draw.params = wp.vec2(*params)
    return draw


@wp.func
def drawn(how: Draw, default: wp.float32, rng: wp.uint32):
    """The property, from a draw and its default."""
    low = how.params[0]
    high = how.params[1]
    draw = wp.float32(0.0)
    if how.distribution == _UNIFORM:
        draw = wp.randf(rng, low, high)
    elif how.distribution == _LOG_UNIFORM:
        draw = clamp(wp.exp(wp.randf(rng, wp.log(low), wp.log(high))), low, high)
    else:
        draw = low + high * wp.randn(rng)
    if how.operation == _ADD:
        draw = default + draw
    elif how.operation == _SCALE:
        draw = default * draw
    return draw, rng
