"""Noise on the actions while experience is collected."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lab_core.state import Stateful


class Exploration(Stateful):
    """Noise (N, A) that is correlated over time; environments take turns with the standard deviations.

    x' = rho x + sqrt(1 - rho^2) n, which keeps the variance of x at that of n.

    Args:
        stds: One for each environment in turn.
        correlation: rho.
        shape: (N, A).
        generator: Draws n.
    """

    def __init__(
        self, stds: Sequence[float], correlation: float, shape: tuple[int, int], generator: torch.Generator
    ) -> None:
        device = generator.device
        turns = torch.tensor(list(stds), device=device).repeat(-(-shape[0] // len(stds)))[: shape[0]]
        self.std = self.scratch(turns.unsqueeze(1))
        """(N, 1)."""
        self.deterministic = self.scratch(turns == 0.0)
        """(N,) bool, environments that act as the policy says."""
        self._correlation = correlation
        self._generator = self.scratch(generator)
        self._value = torch.zeros(shape, device=device)

    def draw(self, std: float | None = None) -> Tensor:
        """Moves on and returns the noise; with ``std``, of one standard deviation everywhere."""
        fresh = torch.randn(self._value.shape, generator=self._generator, device=self._value.device)
        self._value.mul_(self._correlation).add_(fresh, alpha=(1.0 - self._correlation**2) ** 0.5)
        return self._value * (self.std if std is None else std)
