"""What stages of tests do: small kernels on int32 arrays, and counting of calls."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _add(value: int, out: wp.array[wp.int32]):
    i = wp.tid()
    out[i] = out[i] + value


@wp.kernel
def _scale(value: int, out: wp.array[wp.int32]):
    i = wp.tid()
    out[i] = out[i] * value


def add(out: wp.array, value: int = 1) -> wp.array:
    """Adds ``value`` to every element; returns ``out``."""
    wp.launch(_add, dim=out.shape[0], inputs=[value], outputs=[out], device=out.device)
    return out


def scale(out: wp.array, value: int) -> None:
    """Multiplies every element by ``value``."""
    wp.launch(_scale, dim=out.shape[0], inputs=[value], outputs=[out], device=out.device)


def value_of(array: wp.array) -> int:
    """Returns what all elements are; an assertion fails if they differ."""
    values = set(array.numpy().tolist())
    assert len(values) == 1
    return values.pop()


class Calls:
    """Counts the Python calls of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self.function(*args, **kwargs)
