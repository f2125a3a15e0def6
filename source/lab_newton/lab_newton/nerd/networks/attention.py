"""Transformer blocks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from lab_newton.nerd.networks.precision import full_precision

_INIT_STD = 0.02


class Norm(nn.Module):
    """Layer normalisation in FP32, without a bias."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, tokens: Tensor) -> Tensor:
        with full_precision(tokens):
            return functional.layer_norm(tokens.float(), self.weight.shape, self.weight)


class Attention(nn.Module):
    """Attention among the tokens (B, T, E) of each row; scores, weights and sums in FP32.

    Args:
        size: E.
        heads: Number of heads, which divides E.
        causal: Whether a token sees only itself and those before it.
    """

    def __init__(self, size: int, heads: int, causal: bool) -> None:
        super().__init__()
        if size % heads:
            raise ValueError(f"{heads} heads do not divide a token of {size} numbers.")
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(size, 3 * size, bias=False)
        self.output = nn.Linear(size, size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.project(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        with full_precision(tokens):
            mixed = functional.scaled_dot_product_attention(
                query.float(), key.float(), value.float(), is_causal=self.causal
            )
        return self.output(mixed.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """Attention, then GELU units four times as wide, each added to what it was given (pre-norm)."""

    def __init__(self, size: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.attention_norm, self.units_norm = Norm(size), Norm(size)
        self.attention = Attention(size, heads, causal)
        self.widen = nn.Linear(size, 4 * size, bias=False)
        self.narrow = nn.Linear(4 * size, size, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attention(self.attention_norm(tokens))
        return tokens + self.narrow(functional.gelu(self.widen(self.units_norm(tokens))))


class Blocks(nn.Module):
    """Blocks one after another, and a last normalisation: tokens (B, T, E) to the same.

    Args:
        size: E.
        heads: Of each block.
        depth: How many blocks.
        causal: As for :class:`Attention`.
    """

    def __init__(self, size: int, heads: int, depth: int, causal: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(size, heads, causal) for _ in range(depth))
        self.norm = Norm(size)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                # What is added to the stream is small at first, so that its size does not grow with the depth.
                adds = name.endswith(("output.weight", "narrow.weight"))
                nn.init.normal_(weight, std=_INIT_STD / math.sqrt(2.0 * depth) if adds else _INIT_STD)

    def forward(self, tokens: Tensor) -> Tensor:
        for block in self.blocks:
            tokens = block(tokens)
        return self.norm(tokens)
