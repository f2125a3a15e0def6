"""A transformer over frames, one token each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lab_core.config import PositiveInt
from lab_newton.nerd.networks.attention import Blocks
from lab_newton.nerd.networks.network import Network, keep_first


class VectorNeRD(Network):
    """Frames as tokens with learned positions, causal blocks, and two layers that read each token.

    An implementation of our own, of the kind that Xu et al. 2025 describe (arXiv 2508.15755, appendix B).

    Args:
        input_owners: As for every :class:`Network`.
        output_owners: As for every :class:`Network`.
        context: T, most frames that it looks at.
        size: Numbers of a token.
        depth: Number of blocks.
        heads: Of each block.
        head_hidden: Units of the layer that reads tokens.
        contact_channels: As for every :class:`Network`.
        contact_size: As for every :class:`Network`.
    """

    def __init__(
        self,
        input_owners: Sequence[int],
        output_owners: Sequence[int],
        context: PositiveInt = 10,
        size: PositiveInt = 192,
        depth: PositiveInt = 6,
        heads: PositiveInt = 12,
        head_hidden: PositiveInt = 64,
        contact_channels: int = 0,
        contact_size: PositiveInt = 16,
    ) -> None:
        super().__init__(input_owners, output_owners, context, contact_channels, contact_size)
        self.embed = nn.Linear(self.token_size, size)
        self.positions = nn.Parameter(0.02 * torch.randn(context, size))
        self.blocks = Blocks(size, heads, depth, causal=True)
        self.head = nn.Sequential(nn.Linear(size, head_hidden), nn.SiLU(), nn.Linear(head_hidden, self.num_outputs))

    def mix(self, tokens: Tensor, length: Tensor | None = None) -> Tensor:
        stream = self.embed(keep_first(tokens, length)) + self.positions[: tokens.shape[1]]
        return self.head(self.blocks(stream))
