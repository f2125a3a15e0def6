"""Memory of past values per environment: history and delay.

Storage is allocated once and written in place. A row that was reset is empty; the first value it then gets fills all
its slots, so that history and delay never mix two episodes and never show invented values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lab_core.masks import expand_mask, masked_copy_
from lab_core.state import Stateful


class CircularBuffer(Stateful):
    """The last ``max_len`` values of each environment.

    Values are kept in order, oldest first. They are moved on every append instead of being overwritten at a moving
    index: filling the rows that were reset touches every slot anyway, and the history is then a plain view.
    """

    def __init__(
        self, max_len: int, shape: Sequence[int], device: torch.device | str, dtype: torch.dtype = torch.float32
    ) -> None:
        """Allocate the buffer.

        Args:
            max_len: Number of values kept, at least 1.
            shape: Shape ``(N, ...)`` of one value.
            device: Device of the values.
            dtype: Type of the values.

        Raises:
            ValueError: ``max_len`` is less than 1.
        """
        if max_len < 1:
            raise ValueError(f"A buffer keeps at least one value, got max_len={max_len}.")
        num_envs, *value_shape = shape
        self.max_len = max_len
        self.history = torch.zeros((num_envs, max_len, *value_shape), dtype=dtype, device=device)
        """The values ``(N, max_len, ...)``, oldest first: the live buffer, to be copied if kept. Zero in empty rows."""
        self.count = torch.zeros(num_envs, dtype=torch.int64, device=device)
        """Values ``(N,)`` appended since the reset of the row, at most ``max_len``."""

    def append(self, value: Tensor, mask: Tensor | None = None) -> None:
        """Append ``value`` ``(N, ...)``, only in the rows of ``mask`` ``(N,)`` if it is given."""
        history = self.peek(value)
        if mask is None:
            self.history.copy_(history)
            self.count.add_(1)
        else:
            masked_copy_(self.history, history, mask)
            self.count.add_(mask)
        self.count.clamp_(max=self.max_len)

    def peek(self, value: Tensor) -> Tensor:
        """What the history ``(N, max_len, ...)`` would be after :meth:`append`, as a new tensor.

        Raises:
            ValueError: ``value`` has not the shape ``(N, ...)`` of the buffer.
        """
        newest = value.unsqueeze(1)
        if newest.shape != self.history[:, :1].shape:
            expected = (self.history.shape[0], *self.history.shape[2:])
            raise ValueError(f"Expected a value of shape {expected}, got {tuple(value.shape)}.")
        shifted = torch.cat((self.history[:, 1:], newest), dim=1)
        return torch.where(expand_mask(self.count == 0, shifted), newest, shifted)

    def lookup(self, lag: int | Tensor) -> Tensor:
        """Values ``(N, ...)`` from ``lag`` appends ago, as a new tensor: 0 is the newest.

        Args:
            lag: Integer, or int64 tensor ``(N,)``. Beyond what is kept, the oldest value is used.
        """
        return _lookup(self.history, lag)

    def reset(self, mask: Tensor) -> None:
        """Empty the rows of ``mask`` ``(N,)``."""
        masked_copy_(self.history, 0, mask)
        masked_copy_(self.count, 0, mask)


class DelayBuffer(Stateful):
    """Delays a signal by a whole number of appends, each environment by its own lag.

    Until a row has enough values its oldest one is used. Lags start at 0; the caller draws them, at a reset or at any
    time, and sets them under a mask.
    """

    def __init__(
        self, max_lag: int, shape: Sequence[int], device: torch.device | str, dtype: torch.dtype = torch.float32
    ) -> None:
        """Allocate the buffer.

        Args:
            max_lag: Largest lag, at least 0.
            shape: Shape ``(N, ...)`` of one value.
            device: Device of the values.
            dtype: Type of the values.

        Raises:
            ValueError: ``max_lag`` is negative.
        """
        if max_lag < 0:
            raise ValueError(f"A lag cannot be negative, got max_lag={max_lag}.")
        self.max_lag = max_lag
        self._values = CircularBuffer(max_lag + 1, shape, device, dtype)
        self.lag = torch.zeros(shape[0], dtype=torch.int64, device=device)
        """Lag ``(N,)`` in appends. Written by :meth:`set_lag`."""

    def set_lag(self, lag: int | Tensor, mask: Tensor | None = None) -> None:
        """Set the lag of all rows, or of those of ``mask`` ``(N,)``.

        Args:
            lag: Integer, or integer tensor ``(N,)``, clamped to ``0 .. max_lag`` (a check would wait for the device).
            mask: Rows to change.

        Raises:
            ValueError: An integer lag is out of range.
        """
        if isinstance(lag, Tensor):
            lag = lag.clamp(0, self.max_lag)
        elif not 0 <= lag <= self.max_lag:
            raise ValueError(f"The lag must be in 0 .. {self.max_lag}, got {lag}.")
        masked_copy_(self.lag, lag, torch.ones_like(self.lag, dtype=torch.bool) if mask is None else mask)

    def append(self, value: Tensor, mask: Tensor | None = None) -> None:
        """Append ``value`` ``(N, ...)``, only in the rows of ``mask`` ``(N,)`` if it is given."""
        self._values.append(value, mask)

    def read(self) -> Tensor:
        """The delayed value ``(N, ...)``, as a new tensor; zero in empty rows."""
        return self._values.lookup(self.lag)

    def peek(self, value: Tensor) -> Tensor:
        """What :meth:`read` would return after appending ``value``, without appending it."""
        return _lookup(self._values.peek(value), self.lag)

    def reset(self, mask: Tensor) -> None:
        """Empty the rows of ``mask`` ``(N,)``; their lags stay."""
        self._values.reset(mask)


def _lookup(history: Tensor, lag: int | Tensor) -> Tensor:
    last = history.shape[1] - 1
    if not isinstance(lag, Tensor):
        return history[:, max(last - lag, 0)].clone()
    slot = (last - lag).clamp(min=0).reshape(-1, *(1,) * (history.dim() - 1))
    return torch.take_along_dim(history, slot, dim=1).squeeze(1)
