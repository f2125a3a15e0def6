"""What all networks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn


class Contacts(NamedTuple):
    """Contacts of a batch of frames in any order, at most K per frame."""

    geometry: Tensor
    """(B, T, K, C) continuous numbers, on the common scale; 0 where there is no contact."""
    owner: Tensor
    """(B, T, K) body that feels it, as in :attr:`lab_newton.nerd.Representation.feature_owners`."""
    valid: Tensor
    """(B, T, K) bool, where there is a contact."""


class Network(nn.Module, ABC):
    """From windows of frames to what happens in the step after each of their frames.

    A frame is encoded by itself, then frames are mixed: what is encoded can be kept from step to step. Causal: what it
    says of a frame depends on that and earlier ones only, so that one pass trains all lengths of history.

    Args:
        input_owners: Body that each of the F channels of a frame belongs to.
        output_owners: Body that each of the P outputs belongs to.
    """

    context: int
    """T, most frames that it looks at."""
    token_size: int
    """E, numbers of an encoded frame."""

    def __init__(self, input_owners: Sequence[int], output_owners: Sequence[int]) -> None:
        super().__init__()
        self.num_inputs, self.num_outputs = len(input_owners), len(output_owners)
        self.num_bodies = max((*input_owners, *output_owners)) + 1

    @abstractmethod
    def encode(self, frames: Tensor, contacts: Contacts | None = None) -> Tensor:
        """Returns frames (B, T, F), with their contacts, as tokens (B, T, E)."""

    @abstractmethod
    def mix(self, tokens: Tensor, length: Tensor | None = None) -> Tensor:
        """Returns outputs (B, T, P) for tokens (B, T, E); ``length`` (B,): how many of them count, all if None."""

    def forward(self, frames: Tensor, contacts: Contacts | None = None, length: Tensor | None = None) -> Tensor:
        """Returns outputs (B, T, P) for frames (B, T, F) on the common scale, oldest first; see :meth:`mix`."""
        return self.mix(self.encode(frames, contacts), length)
