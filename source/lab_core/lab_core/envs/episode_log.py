"""Values that managers report when environments reset."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from lab_core.state import Stateful


class EpisodeLog(Stateful):
    """Keeps the values of the latest step in which any environment was reset, without asking the host.

    Managers compute their means in every step, also when nothing was reset; those values mean nothing and are
    replaced by the last true ones on the device.
    """

    _state_fields = ("_names",)

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._names: list[str] = []
        self._values = torch.zeros(0, device=device)

    def update(self, values: Mapping[str, torch.Tensor | float], any_reset: torch.Tensor) -> None:
        """Takes over ``values`` (0-d each) if ``any_reset`` (0-d bool) is true."""
        new = torch.stack(
            [torch.as_tensor(value, dtype=torch.float32, device=self._device) for value in values.values()]
        ) if values else self._values  # fmt: skip
        if list(values) == self._names:
            torch.where(any_reset, new, self._values, out=self._values)
            return
        old = self.values()
        self._names = list(values)
        self._values = torch.where(
            any_reset, new, torch.stack([old.get(name, value) for name, value in zip(values, new, strict=True)])
        ) if values else new  # fmt: skip

    def values(self) -> dict[str, torch.Tensor]:
        """Returns owned 0-d tensors by name."""
        return dict(zip(self._names, self._values.clone().unbind(), strict=True))
