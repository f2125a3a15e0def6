"""Checks of settings and of what terms return, with the messages that they share."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_core.managers.errors import TermError


def check_tensor(value: Any, shape: tuple[int, ...], what: str, dtype: torch.dtype | None = None) -> None:
    """Raises :class:`TermError` unless ``value`` is a tensor of this shape (and type). Costs no device time."""
    if not is_tensor(value, shape, dtype):
        raise wrong_tensor(value, shape, what, dtype)


def is_tensor(value: Any, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> bool:
    """Returns whether ``value`` is a tensor of this shape (and type); for every step, which must not make messages."""
    return isinstance(value, torch.Tensor) and value.shape == shape and (dtype is None or value.dtype == dtype)


def wrong_tensor(value: Any, shape: tuple[int, ...], what: str, dtype: torch.dtype | None = None) -> TermError:
    """Returns the error for a ``value`` that is no such tensor."""
    given = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
    return TermError(f"{what} must return a {dtype or 'number'} tensor {shape}, got {given}.")


def check_number(value: Any, what: str) -> None:
    """Raises :class:`TermError` unless ``value`` is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TermError(f"{what} must be a finite number, got {value!r}.")


def check_range(value: Any, what: str) -> None:
    """Raises :class:`TermError` unless ``value`` is ``(low, high)`` with ``low <= high``."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TermError(f"{what} must be (low, high), got {value!r}.")
    if not value[0] <= value[1]:
        raise TermError(f"{what} must have low <= high, got {value!r}.")
