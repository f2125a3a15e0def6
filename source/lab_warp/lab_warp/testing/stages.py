"""What stages of tests do: small kernels on int32 arrays, and counting of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp as wp

from lab_warp.testing import stages_kernels as kernels


def add(out: wp.array, value: int = 1) -> wp.array:
    """Adds ``value`` to every element; returns ``out``."""
    wp.launch(kernels.add, dim=out.shape[0], inputs=[value], outputs=[out], device=out.device)
    return out


def scale(out: wp.array, value: int) -> None:
    """Multiplies every element by ``value``."""
    wp.launch(kernels.scale, dim=out.shape[0], inputs=[value], outputs=[out], device=out.device)


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
