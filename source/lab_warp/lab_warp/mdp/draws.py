"""Random draws for terms: what a configuration says, checked, as kernels take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import warp as wp

from lab_core.errors import unknown_name_message
from lab_core.managers import TermError, check_range
from lab_core.mdp import Distribution, Operation, Params
from lab_warp.mdp import draws_kernels as kernels

_OPERATIONS: dict[Operation, int] = {"add": kernels.ADD, "scale": kernels.SCALE, "abs": kernels.ABS}
_DISTRIBUTIONS: dict[Distribution, int] = {
    "uniform": kernels.UNIFORM,
    "log_uniform": kernels.LOG_UNIFORM,
    "gaussian": kernels.GAUSSIAN,
}


def bounds(
    ranges: Mapping[str, Sequence[float]], names: Sequence[str], what: str
) -> tuple[Sequence[float], Sequence[float]]:
    """Returns lower and upper bounds of the components ``names``; those without a range are 0.

    Raises:
        TermError: ``ranges``, which errors call ``what``, has another component, or one that is no range.
    """
    for key, value in ranges.items():
        if key not in names:
            raise TermError(f"{what}: {unknown_name_message('component', key, names)}")
        check_range(value, f"{what}[{key!r}]")
    low, high = zip(*(ranges.get(key, (0.0, 0.0)) for key in names), strict=True)
    return low, high


def draw_of(params: Params, operation: Operation, distribution: Distribution) -> Any:
    """Returns how kernels draw a property, a ``Draw``.

    Raises:
        TermError: The distribution cannot have these parameters.
    """
    if distribution == "gaussian":
        if params[1] < 0.0:
            raise TermError(f"The standard deviation must not be negative, got {params[1]}.")
    else:
        check_range(params, f"parameters of a {distribution} draw")
        if distribution == "log_uniform" and params[0] <= 0.0:
            raise TermError(f"Bounds of a log-uniform range must be positive, got {tuple(params)}.")
    draw = kernels.Draw()
    draw.distribution, draw.operation = _DISTRIBUTIONS[distribution], _OPERATIONS[operation]
    draw.params = wp.vec2(*params)
    return draw
