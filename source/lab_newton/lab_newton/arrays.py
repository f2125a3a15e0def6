"""Arrays of Newton's models and states."""

from __future__ import annotations

from typing import TypeVar

Array = TypeVar("Array")


def present(array: Array | None) -> Array:
    """Returns ``array``, which Newton declares as optional and every model of a robot has."""
    assert array is not None
    return array
