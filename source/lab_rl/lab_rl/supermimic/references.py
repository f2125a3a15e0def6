"""References of whole rollouts, encoded at once and read step by step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lab_core.env import Command


class ReferenceRows:
    """Rows ``start`` to ``stop`` of a reference (K, ...): a command by itself, with the attributes of the whole one.

    Attributes that are tensors are views of these rows. Dicts of tensors are taken apart likewise, other values belong
    to all rows.

    Args:
        reference: The whole one.
        start: First row.
        stop: Behind the last row.
    """

    def __init__(self, reference: Command, start: int, stop: int) -> None:
        self._reference = reference
        self._rows = slice(start, stop)
        self.metrics: dict[str, Tensor] = {}

    @property
    def command(self) -> Tensor:
        """(stop - start, D)."""
        return self._reference.command[self._rows]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._cut(getattr(self._reference, name))
        setattr(self, name, value)
        return value

    def _cut(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value[self._rows]
        if isinstance(value, dict):
            return {key: self._cut(item) for key, item in value.items()}
        if callable(value):
            raise TypeError(
                f"{type(self._reference).__name__} of a rollout is read step by step, and only tensors can be taken "
                "apart: its terms must not call it."
            )
        return value
