"""The buffers that hold one step of every environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from lab_core.datasets.errors import RecorderError
from lab_core.masks import masked_copy_
from lab_core.recorder.config import Phase
from lab_core.recorder.rows import VALID, RecordField, RowLayout, number_type


class MaskedRows(NamedTuple):
    """A value that a term has only for some environments."""

    value: torch.Tensor
    """(N, ...)."""
    mask: torch.Tensor
    """(N,) bool, rows that are valid; the others keep what they held."""


@dataclass
class Transition:
    """What a consumer sees of a step: live buffers, which the next step overwrites."""

    values: Mapping[str, torch.Tensor]
    """Key -> (N, ...); those of ``post_reset`` belong to the episode that is running or ending."""
    terminated: torch.Tensor
    """(N,) bool."""
    truncated: torch.Tensor
    """(N,) bool."""
    done: torch.Tensor
    """(N,) bool, either of them: the environment is about to be reset."""
    step: int = 0
    """Steps recorded before this one."""


class TransitionBuffers:
    """One buffer (N, ...) per field, with one address for life.

    :meth:`declare` all values, then :meth:`allocate`. The buffers of a step, and those of the beginning of an episode,
    are views of packed rows (N, W); see :class:`RowLayout`. They are normal tensors even when made under
    ``torch.inference_mode``, so that they can be written everywhere.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self._num_envs = num_envs
        self._device = device
        self.fields: dict[str, RecordField] = {}
        self._leaves: dict[str, list[str]] = {}
        self._targets: dict[str, torch.Tensor] = {}
        self._runs: dict[tuple[str, ...], list[tuple[list[str], torch.Tensor]]] = {}
        self._values: dict[str, torch.Tensor] = {}
        self.values: Mapping[str, torch.Tensor] = MappingProxyType(self._values)
        """Key -> (N, ...), with the masks of masked fields under ``valid/<key>``."""

    def declare(self, key: str, value: Any, phase: Phase) -> None:
        """Notes a field for every tensor in ``value``, which is shaped like what :meth:`checked` will take.

        Raises:
            RecorderError: a value has no row per environment, or a key is taken or contains another.
        """
        for name, leaf in flatten(key, value):
            masked = isinstance(leaf, MaskedRows)
            tensor = leaf.value if isinstance(leaf, MaskedRows) else leaf
            check_values(name, tensor, self._num_envs, self._device)
            check_key(name, self.fields)
            self.fields[name] = RecordField(name, tuple(tensor.shape[1:]), tensor.dtype, phase, masked)
            self._leaves.setdefault(key, []).append(name)

    def allocate(self) -> None:
        """Makes the buffers of all fields."""
        initial = [field for field in self.fields.values() if field.phase == "post_reset"]
        self.initial_layout = RowLayout(initial)
        self.step_layout = RowLayout([field for field in self.fields.values() if field.phase != "post_reset"])
        self.step_rows = self.step_layout.allocate(self._num_envs, device=self._device)
        """(N, W) what the present step holds."""
        self.initial_rows = self.initial_layout.allocate(self._num_envs, device=self._device)
        """(N, W') what held when the present episode of each environment began."""
        self._new_initial_rows = torch.zeros_like(self.initial_rows)
        steps = self.step_layout.views(self.step_rows)
        self._values.update(self.initial_layout.views(self.initial_rows) | steps)
        self._targets = self.initial_layout.views(self._new_initial_rows) | steps

    def fields_of(self, key: str) -> list[RecordField]:
        """Returns the fields that were declared below ``key``."""
        return [self.fields[name] for name in self._leaves.get(key, [])]

    def checked(self, key: str, value: Any) -> dict[str, Any]:
        """Returns the leaves of ``value``, to be written below ``key``.

        Raises:
            RecorderError: ``value`` has other keys or shapes than were declared.
        """
        leaves = dict(flatten(key, value))
        declared = self._leaves.get(key, [])
        if list(leaves) != declared:
            raise RecorderError(f"recorded key {key!r} must hold {declared} as in the first call, got {list(leaves)}.")
        for name, leaf in leaves.items():
            if self.fields[name].masked != isinstance(leaf, MaskedRows):
                raise RecorderError(f"recorded key {name!r} must be MaskedRows in every step or in none.")
            tensor = leaf.value if isinstance(leaf, MaskedRows) else leaf
            check_values(name, tensor, self._num_envs, self._device, self.fields[name])
            if isinstance(leaf, MaskedRows) and (leaf.mask.shape, leaf.mask.dtype) != ((self._num_envs,), torch.bool):
                raise RecorderError(
                    f"the mask of recorded key {name!r} must be a bool tensor ({self._num_envs},), got "
                    f"{leaf.mask.dtype} {tuple(leaf.mask.shape)}."
                )
        return leaves

    def write(self, leaves: Mapping[str, Any]) -> None:
        """Copies checked leaves into their buffers, neighbours in one launch; those of ``post_reset`` wait for
        :meth:`begin`."""
        plain: dict[str, torch.Tensor] = {}
        for name, leaf in leaves.items():
            if isinstance(leaf, MaskedRows):
                masked_copy_(self._targets[name], leaf.value, leaf.mask)
                self._targets[VALID + name].copy_(leaf.mask)
            else:
                plain[name] = leaf
        for names, numbers in self._runs_of(tuple(plain)):
            if len(names) == 1:
                self._targets[names[0]].copy_(plain[names[0]])
            else:
                torch.cat([self._as_numbers(name, plain[name]) for name in names], dim=1, out=numbers)

    def begin(self, mask: torch.Tensor) -> None:
        """Takes over what was written for ``post_reset`` in the environments of ``mask`` (N,) bool."""
        masked_copy_(self.initial_rows, self._new_initial_rows, mask)

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

    def _runs_of(self, names: tuple[str, ...]) -> list[tuple[list[str], torch.Tensor]]:
        """Neighbours among the fields of these names, with their place in the rows."""
        if names not in self._runs:
            rows = ((self.step_layout, self.step_rows), (self.initial_layout, self._new_initial_rows))
            self._runs[names] = [run for layout, packed in rows for run in layout.runs(names, packed)]
        return self._runs[names]

    def _as_numbers(self, name: str, value: torch.Tensor) -> torch.Tensor:
        dtype = self.fields[name].dtype
        number, flat = number_type(dtype), value.to(dtype).reshape(self._num_envs, -1)
        if number.itemsize != dtype.itemsize and flat.stride(-1) != 1:
            flat = flat.clone(memory_format=torch.contiguous_format)
        return flat.view(number)


def check_key(key: str, others: Iterable[str]) -> None:
    """Raises :class:`RecorderError` unless a file can hold ``key`` beside ``others``."""
    if key.startswith(VALID) or not all(part not in ("", ".", "..") for part in key.split("/")):
        raise RecorderError(f"recorded key {key!r} must not begin with {VALID!r} or have a part that is empty or dots.")
    for other in others:
        if other == key or other.startswith(f"{key}/") or key.startswith(f"{other}/"):
            raise RecorderError(f"recorded keys {other!r} and {key!r} exclude each other; rename one of them.")


def check_values(
    key: str, value: Any, num_envs: int, device: torch.device, declared: RecordField | None = None
) -> None:
    """Raises :class:`RecorderError` unless ``value`` is a tensor on ``device`` with a row per environment, and fits
    what was declared for the key before. Costs no device time."""
    shape = "..." if declared is None else ", ".join(map(str, declared.shape))
    rows = f"({num_envs}, {shape})" if shape else f"({num_envs},)"
    if not isinstance(value, torch.Tensor) or value.dim() == 0 or value.shape[0] != num_envs:
        raise RecorderError(f"recorded key {key!r} must be a tensor {rows}, got {_form(value)}.")
    if value.device != device:
        raise RecorderError(f"recorded key {key!r} must be on {device}, got a tensor on {value.device}.")
    if declared is None:
        return
    if value.shape[1:] != declared.shape:
        raise RecorderError(f"recorded key {key!r} must be a tensor {rows}, got {_form(value)}.")
    if value.dtype != declared.dtype and not torch.can_cast(value.dtype, declared.dtype):
        raise RecorderError(f"recorded key {key!r} holds {declared.dtype}, got {value.dtype}, which would lose values.")


def flatten(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yields ``(key/of/leaf, leaf)`` for every leaf of a nested dict."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from flatten(f"{key}/{name}", item)
    else:
        yield key, value


def _form(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, torch.Tensor) else type(value).__name__
