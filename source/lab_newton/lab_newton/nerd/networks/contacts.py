"""From contacts in any order and number to a few numbers per body."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lab_newton.nerd.networks.precision import full_precision


class Contacts(NamedTuple):
    """Contacts of a batch of frames, in any order and at any of K places per frame."""

    geometry: Tensor
    """(B, T, K, C) continuous numbers of each; those of empty places do not matter."""
    owner: Tensor
    """(B, T, K) body that feels it, counted as in :attr:`lab_newton.nerd.Representation.feature_owners`."""
    valid: Tensor
    """(B, T, K) bool, where there is one."""


class ContactEncoder(nn.Module):
    """Encodes every contact by itself, and takes the mean over those of each body, with a code of their number.

    The order of contacts does not matter, nor what lies in empty places. Bodies without contacts have zeros.

    Args:
        num_bodies: N.
        num_channels: C, numbers of a contact.
        size: S, numbers of a body.
        hidden: Units of the layer between.
    """

    def __init__(self, num_bodies: int, num_channels: int, size: int = 16, hidden: int = 64) -> None:
        super().__init__()
        self.size = size
        self.encode = nn.Sequential(nn.Linear(num_channels, hidden), nn.SiLU(), nn.Linear(hidden, size))
        self.encode_count = nn.Linear(1, size)
        self.register_buffer("_bodies", torch.arange(num_bodies), persistent=False)

    _bodies: Tensor

    def forward(self, contacts: Contacts) -> Tensor:
        """Returns (B, T, N, S)."""
        valid = contacts.valid[..., None]
        codes = torch.where(valid, self.encode(torch.where(valid, contacts.geometry, 0.0)), 0.0)
        belongs = (contacts.owner[..., None] == self._bodies) & valid  # (B, T, K, N)
        with full_precision(codes):
            belongs = belongs.to(_sum_dtype(codes))
            sums = belongs.transpose(-1, -2) @ codes.to(belongs.dtype)
            count = belongs.sum(dim=-2)[..., None]
            mean = sums / count.clamp(min=1.0)
        touched = count > 0.0
        return torch.where(touched, mean + self.encode_count(torch.log1p(count.float())), 0.0)


def _sum_dtype(codes: Tensor) -> torch.dtype:
    return torch.float64 if codes.dtype == torch.float64 else torch.float32
