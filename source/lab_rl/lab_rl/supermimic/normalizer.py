"""Running mean and standard deviation of what networks read."""

from __future__ import annotations

import torch
from torch import Tensor


class RunningNormalizer(torch.nn.Module):
    """Standardises columns by their statistics over all rows that :meth:`update` was shown.

    Nothing else changes them: networks that are trained on imagined data keep the statistics of real ones.

    Args:
        width: D.
        limit: Largest absolute value of a standardised number; what lies beyond has no gradient. None: any.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, width: int, limit: float | None = 10.0) -> None:
        super().__init__()
        self.limit = limit
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("var", torch.ones(width, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @property
    def std(self) -> Tensor:
        """(D,) float32, at least 1e-4; 1 for columns that have not moved."""
        return torch.where(self.var > 1e-8, self.var.sqrt(), 1.0).float()

    @torch.no_grad()
    def update(self, values: Tensor, valid: Tensor | None = None) -> None:
        """Takes in rows (..., D), those of ``valid`` (...) bool, without asking the host.

        Parallel variance of Chan, Golub and LeVeque (1979). Rows that are not finite do not count.
        """
        rows = values.flatten(0, -2).double()
        counts = rows.isfinite().all(dim=-1)
        if valid is not None:
            counts = counts & valid.flatten()
        weight = counts.unsqueeze(-1)
        number = weight.sum().double()
        safe = number.clamp(min=1.0)
        mean = torch.where(weight, rows, 0.0).sum(0) / safe
        var = torch.where(weight, (rows - mean).square(), 0.0).sum(0) / safe
        total = (self.count + number).clamp(min=1.0)
        share = number / total
        delta = mean - self.mean
        self.var.copy_((1.0 - share) * self.var + share * var + share * (1.0 - share) * delta.square())
        self.mean.add_(share * delta)
        self.count.add_(number)

    def forward(self, values: Tensor) -> Tensor:
        """Returns standardised values (..., D)."""
        standard = (values - self.mean.to(values.dtype)) / self.std.to(values.dtype)
        return standard if self.limit is None else standard.clamp(-self.limit, self.limit)
