"""Numbers of many units on one scale."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

_FLOOR = 1e-4


class Normaliser(nn.Module):
    """Shifts and scales channels to mean 0 and standard deviation 1, as far as those of :meth:`fit` had them.

    Args:
        num_channels: C, the last dimension of what it takes.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_channels))
        self.register_buffer("std", torch.ones(num_channels))

    def fit(self, values: Tensor) -> None:
        """Takes mean and standard deviation from ``values`` (..., C).

        A channel that never changes keeps 1. No other is taken for narrower than 1e-4 of its range: numbers that
        rarely leave a point would otherwise be blown up beyond use.

        Raises:
            ValueError: there are no values, or some are not finite.
        """
        values = values.detach().reshape(-1, self.mean.shape[0])
        if not len(values) or not torch.isfinite(values).all():
            raise ValueError(f"A normaliser takes finite values, at least one row of them; got {tuple(values.shape)}.")
        low, high = values.amin(dim=0), values.amax(dim=0)
        exact = values.to(torch.float64) - low
        mean, std = exact.mean(dim=0), exact.std(dim=0, correction=0)
        extent = (high - low).to(torch.float64)
        self.mean.copy_(mean + low)
        self.std.copy_(torch.where(extent > 0.0, torch.maximum(std, _FLOOR * extent), 1.0))

    def forward(self, values: Tensor) -> Tensor:
        """Returns ``values`` (..., C) on the common scale."""
        return (values - self.mean) / self.std

    def inverse(self, values: Tensor) -> Tensor:
        """Returns what :meth:`forward` made ``values`` (..., C) of."""
        return values * self.std + self.mean

    def digest(self) -> str:
        """Returns 12 hexadecimal digits that tell its scale from another; figures of two scales do not compare."""
        numbers = torch.cat((self.mean, self.std)).to("cpu", torch.float32).contiguous()
        return hashlib.sha256(numbers.numpy().tobytes()).hexdigest()[:12]
