"""Values that managers report when environments reset, in one buffer on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import warp as wp

from lab_core.envs import EpisodeLog

_CAPACITY = 512


class WarpEpisodeLog(EpisodeLog):
    """Keeps the values of the latest step in which any environment was reset.

    Managers reserve their slots when they are built and write them in the captured step, only if something was reset.
    Slots must not move, so their number is limited.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._buffer = torch.zeros(_CAPACITY, device=device)
        self._slots: dict[str, int] = {}

    def reserve(self, names: Sequence[str]) -> tuple[wp.array, torch.Tensor]:
        """Returns slots (K,) for values with these names, as a Warp array and as a tensor.

        Raises:
            ValueError: a name is taken, or there are too many.
        """
        first = len(self._slots)
        taken = [name for name in names if name in self._slots]
        if taken:
            raise ValueError(f"Log names must be unique, and these are taken: {', '.join(taken)}.")
        if first + len(names) > _CAPACITY:
            raise ValueError(f"No room to log {', '.join(names)}: at most {_CAPACITY} values, and there are {first}.")
        self._slots |= {name: first + i for i, name in enumerate(names)}
        slots = self._buffer[first : first + len(names)]
        return wp.from_torch(slots), slots

    def slot(self, name: str) -> tuple[wp.array, torch.Tensor]:
        """Returns the slot (1,) of a name, taken or new."""
        if name not in self._slots:
            return self.reserve([name])
        slot = self._buffer[self._slots[name]].unsqueeze(0)
        return wp.from_torch(slot), slot

    def put(self, name: str, value: torch.Tensor | float, reset_count: torch.Tensor) -> None:
        """Stores a value of torch code, which may come under a new name, if anything was reset."""
        is_new = name not in self._slots
        if is_new:
            self.reserve([name])
        slot = self._buffer[self._slots[name]]
        slot.copy_(self._number(value) if is_new else torch.where(reset_count[0] > 0, self._number(value), slot))

    @property
    def stored_values(self) -> dict[str, float]:
        return dict(zip(self._slots, self._buffer[: len(self._slots)].tolist(), strict=True))

    @stored_values.setter
    def stored_values(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if name not in self._slots:
                self.reserve([name])
            self._buffer[self._slots[name]] = value

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._slots)

    @property
    def buffer(self) -> torch.Tensor:
        return self._buffer

    def values(self) -> dict[str, torch.Tensor]:
        return dict(zip(self._slots, self._buffer[: len(self._slots)].clone().unbind(), strict=True))
