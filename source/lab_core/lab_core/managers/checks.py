"""Checks of settings and of what terms return, with the messages that they share."""

from __future__ import annotations

import math
from typing import Any

import torch

from lab_core.managers.errors import TermError


def check_tensor(value: Any, shape: tuple[int, ...], what: str, dtype: torch.dtype | None = None) -> None:
    """Raises :class:`TermError` unless ``value`` is a tensor of this shape (and type). Costs no device time."""
    if isinstance(value, torch.Tensor) and value.shape == shape and (dtype is None or value.dtype == dtype):
        return
    given = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
    raise TermError(f"{what} must return a {dtype or 'number'} tensor {shape}, got {given}.")


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
