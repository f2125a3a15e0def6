"""The distribution of the policy's actions."""

from __future__ import annotations

import torch
from rsl_rl.modules.distribution import GaussianDistribution


class Gaussian(GaussianDistribution):
    """rsl-rl's Gaussian, sampled without waiting for the GPU.

    ``torch.normal`` reads back whether every standard deviation is positive; rsl-rl clamps them to be.
    """

    @torch.no_grad()
    def sample(self) -> torch.Tensor:
        """Returns a draw (N, A)."""
        return self.sample_with(torch.randn_like(self.mean))

    @torch.no_grad()
    def sample_with(self, noise: torch.Tensor) -> torch.Tensor:
        """Returns the draw (N, A) that standard normal ``noise`` (N, A) makes."""
        return self.mean + self.std * noise

    def forget(self) -> None:
        """Forgets the latest distribution, and with it the graph of its gradients."""
        self._distribution = None
