"""What decides how robots move, as plain values by name, and how two of these differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

Fingerprint = dict[str, dict[str, Any]]
"""Part of the physics -> name of a field, or names that lead to it -> its value; can be written as JSON."""

_RELATIVE, _ABSOLUTE = 1e-6, 1e-9
"""Numbers that are closer are equal: what a model is built with depends on rounding."""


def plain(value: Any) -> Any:
    """Returns ``value`` as JSON knows it: tensors and arrays as lists of the shortest decimals that give their numbers,
    infinities and NaN as texts."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype == np.float32:
            shortest = [float(str(number)) for number in np.ravel(value)]
            return plain(np.array(shortest).reshape(np.shape(value)).tolist())
        return plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else str(value)
    return value


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Returns how ``a`` differs from ``b``, as ``"field: x, was y"`` with the value of ``a`` first; empty where not.

    The name of a field is the names that lead to it, with dots. Numbers are equal up to 1e-6 of them.
    """
    return _differences(a, b, "")


def _differences(a: Any, b: Any, path: str) -> list[str]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        names = [*a, *(name for name in b if name not in a)]
        return [
            line
            for name in names
            for line in _differences(a.get(name, _ABSENT), b.get(name, _ABSENT), f"{path}.{name}" if path else name)
        ]
    if _lists_fields(a) and _lists_fields(b) and len(a) == len(b):
        return [line for i, pair in enumerate(zip(a, b, strict=True)) for line in _differences(*pair, f"{path}.{i}")]
    return [] if _equal(a, b) else [f"{path}: {_shown(a)}, was {_shown(b)}"]


_ABSENT = object()


def _lists_fields(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, bool) or isinstance(b, bool) or not (isinstance(a, int | float) and isinstance(b, int | float)):
        return type(a) is type(b) and a == b
    return math.isclose(a, b, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _shown(value: Any) -> str:
    if _lists_fields(value):
        return f"{len(value)} parts"
    if isinstance(value, Mapping):
        return "present"
    return "absent" if value is _ABSENT else str(value)
