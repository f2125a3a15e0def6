"""Quantities of several shapes and types, packed into one row of 8-byte words per environment.

Packed rows are copied, selected and brought to the host in one piece, whatever they hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from lab_core.recorder.config import PHASES, Phase

VALID = "valid/"
"""Prefix of the key that holds the mask of another key's rows."""
_WORD = 8


@dataclass(frozen=True)
class RecordField:
    """One recorded quantity."""

    key: str
    shape: tuple[int, ...]
    """Of one environment."""
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
        fields = list(fields)
        entries = [(field.key, field.shape, field.dtype, field.phase) for field in fields]
        entries += [(VALID + field.key, (), torch.bool, field.phase) for field in fields if field.masked]
        self._places: dict[str, tuple[int, tuple[int, ...], torch.dtype]] = {}
        offset = 0
        # The widest types first: then nothing but the end needs padding. What is written together lies together.
        for key, shape, dtype, _ in sorted(entries, key=lambda entry: (-entry[2].itemsize, PHASES.index(entry[3]))):
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

    def runs(self, keys: Iterable[str], rows: torch.Tensor) -> list[tuple[list[str], torch.Tensor]]:
        """Returns the keys in pieces that lie one behind the other and can be copied as numbers of one type, each with
        its part of ``rows`` (N, num_words): (N, numbers) int32 or uint8. Keys without content are left out."""
        runs: list[tuple[list[str], torch.dtype, int, int]] = []
        wanted = set(keys)
        for key, (offset, shape, dtype) in self._places.items():
            size = math.prod(shape) * dtype.itemsize
            if key not in wanted or not size:
                continue
            number = number_type(dtype)
            if runs and runs[-1][1] == number and runs[-1][3] == offset:
                runs[-1] = ([*runs[-1][0], key], number, runs[-1][2], offset + size)
            else:
                runs.append(([key], number, offset, offset + size))
        with torch.inference_mode(False):
            return [
                (run, rows.view(number)[:, start // number.itemsize : end // number.itemsize])
                for run, number, start, end in runs
            ]


def number_type(dtype: torch.dtype) -> torch.dtype:
    """Returns the type as whose numbers values of ``dtype`` are copied."""
    return torch.int32 if dtype.itemsize % torch.int32.itemsize == 0 else torch.uint8
