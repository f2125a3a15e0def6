"""Values that managers report when environments reset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from lab_core.state import Stateful, lasting_tensors


class EpisodeLog(Stateful):
    """Keeps the values of the latest step in which any environment was reset, without asking the host.

    Managers compute their means in every step, also when nothing was reset; those values mean nothing and are
    replaced by the last true ones on the device.
    """

    _state_fields = ("stored_values",)

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._names: list[str] = []
        self._values = torch.zeros(0, device=device)

    @property
    def stored_values(self) -> dict[str, float]:
        """The values as plain numbers, since their names may have changed until they are loaded again."""
        return dict(zip(self._names, self._values.tolist(), strict=True))

    @stored_values.setter
    @lasting_tensors()
    def stored_values(self, values: Mapping[str, float]) -> None:
        self._names = list(values)
        self._values = torch.tensor(list(values.values()), dtype=torch.float32, device=self._device)

    def _state_items(self) -> Iterable[tuple[str, Any]]:
        return ()  # the plain numbers say all

    def update(self, values: Mapping[str, torch.Tensor | float], any_reset: torch.Tensor) -> None:
        """Takes over ``values`` (0-d each) if ``any_reset`` (0-d bool) is true; a new name begins with its value."""
        new = torch.stack([self._number(value) for value in values.values()]) if values else self._values[:0]
        names = list(values)
        if names != self._names:
            old = self.values()
            kept = [old.get(name, value) for name, value in zip(names, new.unbind(), strict=True)]
            with lasting_tensors():
                self._names, self._values = names, torch.stack(kept) if kept else new
        torch.where(any_reset, new, self._values, out=self._values)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the values, in their order."""
        return tuple(self._names)

    @property
    def buffer(self) -> torch.Tensor | None:
        """(K,) the live values in the order of :attr:`names`, each in a place that it keeps, and room for more behind
        them; None where they may move."""
        return None

    def values(self) -> dict[str, torch.Tensor]:
        """Returns owned 0-d tensors by name."""
        return dict(zip(self._names, self._values.clone().unbind(), strict=True))

    def _number(self, value: torch.Tensor | float) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value.to(self._device, torch.float32)
        # Filled on the device: a copy from the host would be waited for.
        return torch.full((), value, device=self._device, dtype=torch.float32)
