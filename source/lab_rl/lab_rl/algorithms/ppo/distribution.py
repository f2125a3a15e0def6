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
        return self.mean + self.std * torch.randn_like(self.mean)
