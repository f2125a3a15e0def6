"""Angles and directions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def wrap_to_pi(angle: Tensor) -> Tensor:
    """Wrap angles [rad] into ``[-pi, pi]``; odd multiples of pi keep the sign of the input. Gradient 1 everywhere."""
    # In few operations, since torch launches each of them. The turns come out negative and get the sign of the angle.
    turns = torch.div(torch.rsub(angle.abs(), math.pi), 2.0 * math.pi, rounding_mode="floor")
    return torch.sub(angle, turns.copysign(angle), alpha=2.0 * math.pi)


def normalize(vector: Tensor, eps: float = 1e-8) -> Tensor:
    """Unit vectors along the last dimension; a vector no longer than ``eps`` becomes zero, with zero gradient."""
    squared_norm = vector.square().sum(dim=-1, keepdim=True)
    too_short = squared_norm <= eps * eps  # false for NaN, which passes through
    scale = torch.rsqrt(torch.where(too_short, 1.0, squared_norm))
    return vector * torch.where(too_short, 0.0, scale)
