"""Random draws. Each takes its generator explicitly, draws on the generator's device and never waits for it.

Bounds are floats or tensors that broadcast to ``shape``; a range ``(low, high)`` of a configuration is passed as
``uniform(*cfg.range, ...)``. Draw for all N environments and keep the selected rows with
:func:`lab_core.masks.masked_copy_`: the stream then does not depend on which environments were reset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Bound: TypeAlias = float | Tensor


def uniform(low: Bound, high: Bound, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Uniform draws from ``[low, high]``, shape ``shape``, float32. ``low == high`` returns that value exactly.

    Raises:
        ValueError: ``low > high`` (checked for floats only; tensors would need a host synchronisation).
    """
    _check_range(low, high)
    draws = torch.empty(tuple(shape), device=generator.device)
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return low + (high - low) * draws.uniform_(generator=generator)
    return draws.uniform_(low, high, generator=generator)


def log_uniform(low: Bound, high: Bound, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Draws from ``[low, high]`` whose logarithm is uniform, shape ``shape``, float32; the bounds are positive.

    Raises:
        ValueError: A float bound is not positive, or ``low > high``.
    """
    _check_range(low, high)
    if not isinstance(low, Tensor) and low <= 0.0:
        raise ValueError(f"Bounds of a log-uniform range must be positive, got ({low}, {high}).")
    draws = torch.exp(uniform(_log(low), _log(high), shape, generator))
    # exp(log(x)) misses x by rounding; one bound at a time, since clamp() does not mix floats and tensors
    return draws.clamp(min=low).clamp(max=high)


def gaussian(mean: Bound, std: Bound, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Normal draws, shape ``shape``, float32. ``std == 0`` returns the mean exactly.

    Raises:
        ValueError: A float ``std`` is negative.
    """
    if not isinstance(std, Tensor) and std < 0.0:
        raise ValueError(f"The standard deviation must not be negative, got {std}.")
    return mean + std * torch.randn(tuple(shape), generator=generator, device=generator.device)


def _log(bound: Bound) -> Bound:
    return bound.log() if isinstance(bound, Tensor) else math.log(bound)


def _check_range(low: Bound, high: Bound) -> None:
    if not isinstance(low, Tensor) and not isinstance(high, Tensor) and low > high:
        raise ValueError(f"A range is (low, high) with low <= high, got ({low}, {high}).")
