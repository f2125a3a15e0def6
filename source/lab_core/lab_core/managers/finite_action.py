"""Refusing actions that are not finite."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from lab_core.managers.errors import ActionError
from lab_core.state import Stateful


class FiniteActionCheck(Stateful):
    """On a CPU, raises at once. On a GPU, where looking would mean waiting for the device, replaces the bad numbers by
    0 and remembers them until :meth:`raise_for_invalid`, which is called once per iteration.
    """

    def __init__(self, num_envs: int, columns: Mapping[str, slice], width: int, device: torch.device) -> None:
        """``columns`` names the parts of an action of ``width`` numbers."""
        self._columns = dict(columns)
        self.non_finite_action = torch.zeros(num_envs, width, dtype=torch.bool, device=device)
        """(N, A) bool, numbers that were not finite since the last :meth:`raise_for_invalid`."""
        self._raise_at_once = device.type == "cpu"

    def __call__(self, action: torch.Tensor | np.ndarray) -> torch.Tensor:
        """Returns the action (N, A), which gymnasium gives as an array, as a float32 tensor on the check's device.

        Raises:
            ActionError: the shape is wrong, or (on a CPU) a number is not finite.
        """
        action = self.checked(action).to(self.non_finite_action.device, torch.float32)
        if self._raise_at_once:
            return action
        bad = ~torch.isfinite(action)
        self.non_finite_action.logical_or_(bad)
        return action.masked_fill(bad, 0.0)

    def checked(self, action: torch.Tensor | np.ndarray) -> torch.Tensor:
        """Returns the action as it was given, as a tensor, and leaves numbers that are not finite in it on a GPU.

        Raises:
            ActionError: the shape is wrong, or (on a CPU) a number is not finite.
        """
        action = torch.as_tensor(action)
        if action.shape != self.non_finite_action.shape:
            parts = ", ".join(f"{name} {c.start}:{c.stop}" for name, c in self._columns.items()) or "none"
            raise ActionError(
                f"The action must have shape {tuple(self.non_finite_action.shape)} (environments, columns {parts}), "
                f"got {tuple(action.shape)}."
            )
        if self._raise_at_once:
            self._raise_for(~torch.isfinite(action.to(torch.float32)))
        return action

    def raise_for_invalid(self) -> None:
        """Waits for the device and raises :class:`ActionError` if an action since the last call was not finite."""
        bad = self.non_finite_action.clone()
        self.non_finite_action.zero_()
        self._raise_for(bad)

    def _raise_for(self, bad: torch.Tensor) -> None:
        if not bad.any():
            return
        rows = bad.any(dim=1).nonzero().flatten().tolist()
        terms = [name for name, columns in self._columns.items() if bool(bad[:, columns].any())]
        shown = ", ".join(map(str, rows[:10])) + (f", ... ({len(rows)} in all)" if len(rows) > 10 else "")
        raise ActionError(f"The action is not finite in environments {shown}, action terms {', '.join(terms)}.")
