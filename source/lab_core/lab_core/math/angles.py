"""Angles and directions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def wrap_to_pi(angle: Tensor) -> Tensor:
    """Wrap angles [rad] into ``[-pi, pi]``; odd multiples of pi keep the sign of the input. Gradient 1 everywhere."""
    turns = torch.ceil(angle.abs() / (2.0 * math.pi) - 0.5)
    return angle - 2.0 * math.pi * turns * torch.sign(angle)


def normalize(vector: Tensor, eps: float = 1e-8) -> Tensor:
    """Unit vectors along the last dimension; a vector no longer than ``eps`` becomes zero, with zero gradient."""
    squared_norm = vector.square().sum(dim=-1, keepdim=True)
    too_short = squared_norm <= eps * eps  # false for NaN, which passes through
    scale = torch.rsqrt(torch.where(too_short, 1.0, squared_norm))
    return vector * torch.where(too_short, 0.0, scale)
