"""The latest steps of all worlds, in one ring on the device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch

from lab_core.masks import masked_copy_
from lab_core.recorder.transition import VALID, RecordField


class EpisodeRing:
    """Keeps what :class:`TransitionBuffers` held in the latest ``T`` steps, and how the present episodes began.

    All worlds step together, so that one slot of the ring is one step of all of them. Everything that happens in a step
    runs on the device, at fixed addresses, without asking the host: :meth:`insert` and :meth:`start_episodes` may be
    part of a recorded graph.

    Args:
        fields: What is kept.
        num_envs: Worlds N.
        capacity: Steps of an episode that can be read.
        lag: Steps after the end of an episode for which it can still be read.
        device: Where everything lies.
    """

    def __init__(
        self, fields: Iterable[RecordField], num_envs: int, capacity: int, lag: int, device: torch.device
    ) -> None:
        self.capacity = capacity
        self.num_slots = capacity + lag
        # A world can begin lag + 1 more episodes before the host looks at one that has ended.
        self.num_starts = lag + 2
        self.num_envs = num_envs
        self.device = device
        self.steps: dict[str, torch.Tensor] = {}
        """Key -> (T, N, ...)."""
        self.initial: dict[str, torch.Tensor] = {}
        """Key -> (S, N, ...), the latest S beginnings of each world."""
        with torch.inference_mode(False):
            self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
            """(1,) slot of the next step."""
            self.length = torch.zeros(num_envs, dtype=torch.int64, device=device)
            """(N,) steps of the running episode, also those that were overwritten."""
            self._start = torch.full((num_envs,), -1, dtype=torch.int64, device=device)
            self._worlds = torch.arange(num_envs, device=device)
        for field in fields:
            self.add(field)

    def add(self, field: RecordField) -> None:
        """Allocates the rows of a field, zeroed."""
        initial = field.phase == "post_reset"
        target, count = (self.initial, self.num_starts) if initial else (self.steps, self.num_slots)
        with torch.inference_mode(False):
            size = (count, self.num_envs)
            target[field.key] = torch.zeros(*size, *field.shape, dtype=field.dtype, device=self.device)
            if field.masked:
                target[VALID + field.key] = torch.zeros(size, dtype=torch.bool, device=self.device)

    def insert(self, values: Mapping[str, torch.Tensor]) -> None:
        """Appends a step of all worlds: one copy per key of (N, ...) into the slot of the cursor."""
        for key, rows in self.steps.items():
            if key in values:
                rows.index_copy_(0, self.cursor, values[key][None])
            else:  # written from outside, later
                rows.index_fill_(0, self.cursor, 0)
        self.cursor.add_(1).remainder_(self.num_slots)
        self.length.add_(1)

    def amend(self, key: str, value: torch.Tensor, mask: torch.Tensor) -> None:
        """Writes ``value`` (N, ...) into the latest step of the worlds of ``mask`` (N,) bool."""
        slot = (self.cursor - 1).remainder_(self.num_slots)
        for name, new in ((key, value), (VALID + key, mask)):
            row = self.steps[name].index_select(0, slot)[0]
            self.steps[name].index_copy_(0, slot, masked_copy_(row, new, mask)[None])

    def start_episodes(self, values: Mapping[str, torch.Tensor], mask: torch.Tensor) -> None:
        """Begins an episode in the worlds of ``mask`` (N,) bool with the initial values (N, ...)."""
        masked_copy_(self.length, 0, mask)
        self._start.add_(mask)
        slots = self._start.clamp(min=0).remainder_(self.num_starts)
        for key, rows in self.initial.items():
            row = rows[slots, self._worlds]
            rows.index_put_((slots, self._worlds), masked_copy_(row, values[key], mask))

    def gather(
        self, worlds: Sequence[int], last_steps: Sequence[int], lengths: Sequence[int], starts: Sequence[int]
    ) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Returns owned copies of episodes, one behind the other.

        Args:
            worlds: World of each episode.
            last_steps: Number of its last step, counted in calls of :meth:`insert` from 0.
            lengths: Its steps, at most ``capacity``.
            starts: Which beginning of that world it had, counted in calls of :meth:`start_episodes` from 0.

        Returns:
            Key -> (sum of lengths, ...) and key -> (episodes, ...).
        """
        world, last, length, start = (np.asarray(x, dtype=np.int64) for x in (worlds, last_steps, lengths, starts))
        first_rows = np.cumsum(length) - length
        within = np.arange(length.sum()) - np.repeat(first_rows, length)
        slot = (np.repeat(last - length + 1, length) + within) % self.num_slots
        step_rows = self._index(slot * self.num_envs + np.repeat(world, length))
        start_rows = self._index(start % self.num_starts * self.num_envs + world)
        with torch.inference_mode(False), torch.no_grad():
            steps = {key: rows.flatten(0, 1).index_select(0, step_rows) for key, rows in self.steps.items()}
            initial = {key: rows.flatten(0, 1).index_select(0, start_rows) for key, rows in self.initial.items()}
        return steps, initial

    def _index(self, index: np.ndarray) -> torch.Tensor:
        with torch.inference_mode(False):
            tensor = torch.from_numpy(index)
            if self.device.type == "cuda":
                return tensor.pin_memory().to(self.device, non_blocking=True)
            return tensor


def ring_bytes(fields: Iterable[RecordField], num_envs: int, capacity: int, lag: int) -> int:
    """Returns the device memory that a ring of these fields takes."""
    rows = sum(field.row_bytes * (lag + 2 if field.phase == "post_reset" else capacity + lag) for field in fields)
    return rows * num_envs
