"""The buffers that hold one step of every world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from lab_core.masks import masked_copy_
from lab_core.recorder.config import Phase
from lab_core.recorder.errors import RecorderError

VALID = "valid/"
"""Prefix of the key that holds the mask of another key's rows."""


class MaskedRows(NamedTuple):
    """A value that a term has only for some worlds."""

    value: torch.Tensor
    """(N, ...)."""
    mask: torch.Tensor
    """(N,) bool, rows that are valid; the others keep what they held."""


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

    @property
    def row_bytes(self) -> int:
        """Size of one world's value."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size + self.masked


class TransitionBuffers:
    """One tensor (N, ...) per field, with one address for life.

    They are normal tensors even when made under ``torch.inference_mode``, so that they can be written everywhere.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self._num_envs = num_envs
        self._device = device
        self.fields: dict[str, RecordField] = {}
        self._leaves: dict[str, list[str]] = {}
        self._values: dict[str, torch.Tensor] = {}
        self.values: Mapping[str, torch.Tensor] = MappingProxyType(self._values)
        """Key -> (N, ...), with the masks of masked fields under ``valid/<key>``."""

    def declare(self, key: str, value: Any, phase: Phase) -> None:
        """Adds a buffer for every tensor in ``value``, which is shaped like what :meth:`write` will take.

        Raises:
            RecorderError: a value has no row per world, or a key is taken or contains another.
        """
        for name, leaf in flatten(key, value):
            masked = isinstance(leaf, MaskedRows)
            tensor = leaf.value if isinstance(leaf, MaskedRows) else leaf
            if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0 or tensor.shape[0] != self._num_envs:
                given = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
                raise RecorderError(f"recorded key {name!r} must be a tensor ({self._num_envs}, ...), got {given}.")
            self._check_key(name)
            self.fields[name] = RecordField(name, tuple(tensor.shape[1:]), tensor.dtype, phase, masked)
            self._leaves.setdefault(key, []).append(name)
            with torch.inference_mode(False):
                self._values[name] = torch.zeros(tensor.shape, dtype=tensor.dtype, device=self._device)
                if masked:
                    self._values[VALID + name] = torch.zeros(self._num_envs, dtype=torch.bool, device=self._device)

    def fields_of(self, key: str) -> list[RecordField]:
        """Returns the fields that were declared below ``key``."""
        return [self.fields[name] for name in self._leaves.get(key, [])]

    def write(self, key: str, value: Any, mask: torch.Tensor | None = None) -> None:
        """Copies ``value`` into the buffers below ``key``; only into the rows of ``mask`` (N,) bool, if given.

        Raises:
            RecorderError: ``value`` has other keys or shapes than were declared.
        """
        leaves = dict(flatten(key, value))
        declared = self._leaves.get(key, [])
        if list(leaves) != declared:
            raise RecorderError(f"recorded key {key!r} must hold {declared} as in the first call, got {list(leaves)}.")
        for name, leaf in leaves.items():
            tensor, valid = leaf if isinstance(leaf, MaskedRows) else (leaf, None)
            buffer = self._values[name]
            if self.fields[name].masked != (valid is not None):
                raise RecorderError(f"recorded key {name!r} must be MaskedRows in every step or in none.")
            if not isinstance(tensor, torch.Tensor) or tensor.shape != buffer.shape:
                given = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
                raise RecorderError(f"recorded key {name!r} must be a tensor {tuple(buffer.shape)}, got {given}.")
            if valid is not None:
                masked_copy_(buffer, tensor, valid if mask is None else valid & mask)
                buffer, tensor = self._values[VALID + name], valid
            if mask is None:
                buffer.copy_(tensor)
            else:
                masked_copy_(buffer, tensor, mask)

    def poison(self) -> None:
        """Fills the buffers of a step with NaN, the largest integer, or True."""
        for name, field in self.fields.items():
            if field.phase == "post_reset":
                continue
            if field.dtype == torch.bool:
                self._values[name].fill_(True)
            elif field.dtype.is_floating_point:
                self._values[name].fill_(torch.nan)
            else:
                self._values[name].fill_(torch.iinfo(field.dtype).max)

    def _check_key(self, key: str) -> None:
        if key.startswith(VALID) or not all(key.split("/")):
            raise RecorderError(f"recorded key {key!r} must not begin with {VALID!r} or have an empty part.")
        for other in self.fields:
            if other == key or other.startswith(f"{key}/") or key.startswith(f"{other}/"):
                raise RecorderError(f"recorded keys {other!r} and {key!r} exclude each other; rename a term's key.")


def flatten(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields ``(key/of/leaf, leaf)`` for every leaf of a nested dict."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from flatten(f"{key}/{name}", item)
    else:
        yield key, value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``{"a/b": x}`` as ``{"a": {"b": x}}``."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *path, leaf = key.split("/")
        node = tree
        for name in path:
            node = node.setdefault(name, {})
        node[leaf] = value
    return tree
