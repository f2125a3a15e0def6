"""Quantities of several shapes and types, packed into one row of 8-byte words per world.

Packed rows are copied, selected and brought to the host in one piece, whatever they hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from lab_core.recorder.config import Phase

VALID = "valid/"
"""Prefix of the key that holds the mask of another key's rows."""
_WORD = 8


@dataclass(frozen=True)
class RecordField:
    """One recorded quantity."""

    key: str
    shape: tuple[int, ...]
    """Of one world."""
    dtype: torch.dtype
    phase: Phase
    masked: bool = False
    """Whether some rows may be invalid: key ``valid/<key>`` tells which."""


class RowLayout:
    """Where each field lies in a row.

    Args:
        fields: The fields; a masked one brings its mask along.
    """

    def __init__(self, fields: Iterable[RecordField]) -> None:
        entries = [(field.key, field.shape, field.dtype) for field in fields]
        entries += [(VALID + field.key, (), torch.bool) for field in fields if field.masked]
        self._places: dict[str, tuple[int, tuple[int, ...], torch.dtype]] = {}
        offset = 0
        # The widest types first: then nothing but the end needs padding.
        for key, shape, dtype in sorted(entries, key=lambda entry: -entry[2].itemsize):
            self._places[key] = (offset, shape, dtype)
            offset += math.prod(shape) * dtype.itemsize
        self._order = [key for key, *_ in entries]
        self.num_words = math.ceil(offset / _WORD)
        """Length of a row, in int64."""

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return self.num_words * _WORD

    def allocate(self, *lead: int, device: torch.device) -> torch.Tensor:
        """Returns zeroed rows (*lead, num_words) int64: a normal tensor, also under ``torch.inference_mode``."""
        with torch.inference_mode(False):
            return torch.zeros(*lead, self.num_words, dtype=torch.int64, device=device)

    def views(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns key -> (*lead, *shape), views of contiguous rows (*lead, num_words)."""
        lead = rows.shape[:-1]
        with torch.inference_mode(False):
            row_bytes = rows.view(torch.uint8)
            views = {}
            for key in self._order:
                offset, shape, dtype = self._places[key]
                size = math.prod(shape) * dtype.itemsize
                if size and rows.numel():
                    values = row_bytes[..., offset : offset + size].view(dtype)
                    views[key] = values.unflatten(-1, shape) if shape else values.squeeze(-1)
                else:
                    views[key] = torch.zeros(*lead, *shape, dtype=dtype, device=rows.device)
            return views
