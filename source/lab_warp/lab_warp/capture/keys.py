"""Identity of a stage's arguments: which calls may share graphs."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import warp as wp


def argument_key(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Hashable:
    """Key under which the graphs of a call with these arguments are kept.

    Arrays and tensors count by memory and layout (pointer, shape, dtype, strides), scalars and vectors by value,
    containers by their elements, anything else by identity (the graphs keep it alive, so an id is never reused).
    """
    if not args and not kwargs:
        return ()
    return tuple(map(_key, args)), tuple((name, _key(value)) for name, value in sorted(kwargs.items()))


def _key(value: Any) -> Hashable:
    if isinstance(value, wp.array):
        return "array", value.ptr, value.shape, value.dtype, value.strides, str(value.device)
    if isinstance(value, torch.Tensor):
        return "tensor", value.data_ptr(), tuple(value.shape), value.dtype, value.stride(), str(value.device)
    if isinstance(value, wp.indexedarray):
        return "indexedarray", _key(value.data), tuple(map(_key, value.indices))
    if isinstance(value, float):
        return float, value.hex()  # by bits: a NaN equals itself, and -0.0 is not 0.0
    if value is None or isinstance(value, (bool, int, str, bytes, enum.Enum)):
        return type(value), value  # with its type, since True == 1
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    if isinstance(value, ctypes.Array):  # Warp vectors, matrices, quaternions, transforms
        return type(value), bytes(value)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(_key, value))
    if isinstance(value, dict):
        return dict, tuple((_key(name), _key(item)) for name, item in value.items())
    return type(value), id(value)
