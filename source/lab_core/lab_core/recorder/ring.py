"""The latest steps of all environments, in one ring on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lab_core.masks import masked_copy_
from lab_core.recorder.rows import VALID, RecordField, RowLayout
from lab_core.recorder.sinks import PackedRows


@dataclass(frozen=True)
class _Block:
    """Fields that enter the ring together."""

    layout: RowLayout
    source: torch.Tensor
    """(N, W), copied into the ring at every step."""
    rows: torch.Tensor
    """(T, N, W)."""
    views: dict[str, torch.Tensor]
    """Key -> (T, N, ...), of ``rows``."""


class EpisodeRing:
    """Keeps the packed rows of the latest ``T`` steps, and how the present episodes began.

    All environments step together, so that one slot of the ring is one step of all of them. Everything that happens in
    a step runs on the device, at fixed addresses, without asking the host: :meth:`insert` and :meth:`start_episodes`
    may be part of a captured graph.

    Args:
        step_layout: What a row of a step holds.
        step_rows: (N, W) int64, read at every :meth:`insert`.
        initial_layout: What a row of a beginning holds.
        initial_rows: (N, W') int64, how the running episode of every environment began; read at every
            :meth:`start_episodes`.
        capacity: Steps of an episode that can be read.
        lag: Steps after the end of an episode for which it can still be read.
    """

    def __init__(
        self,
        step_layout: RowLayout,
        step_rows: torch.Tensor,
        initial_layout: RowLayout,
        initial_rows: torch.Tensor,
        capacity: int,
        lag: int,
    ) -> None:
        self.capacity = capacity
        self.num_slots = capacity + lag
        # An environment can begin lag + 1 more episodes before the host looks at one that has ended.
        self.num_starts = lag + 2
        self.num_envs = len(step_rows)
        self.device = step_rows.device
        self._blocks: list[_Block] = []
        self._add_block(step_layout, step_rows)
        self._initial_layout, self._initial_source = initial_layout, initial_rows
        self._initial_rows = initial_layout.allocate(self.num_starts, self.num_envs, device=self.device)
        with torch.inference_mode(False):
            self.cursor = torch.zeros(1, dtype=torch.int64, device=self.device)
            """(1,) slot of the next step."""
            self.length = torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)
            """(N,) steps of the running episode, also those that were overwritten."""
            self.beginnings = torch.full_like(self.length, -1)
            """(N,) episodes that each environment has begun before the running one."""
            self._env_ids = torch.arange(self.num_envs, device=self.device)

    @property
    def steps(self) -> dict[str, torch.Tensor]:
        """Key -> (T, N, ...), live views."""
        return {key: view for block in self._blocks for key, view in block.views.items()}

    @property
    def layout(self) -> RowLayout:
        """What :attr:`rows` hold."""
        return self._blocks[0].layout

    @property
    def rows(self) -> torch.Tensor:
        """(T, N, W) int64, all steps packed as :attr:`layout` says, without fields that were added: live memory."""
        return self._blocks[0].rows

    @property
    def start(self) -> torch.Tensor:
        """(N,) slot of the first step that is kept of each running episode; those after it follow, around the end."""
        return (self.cursor - self.length.clamp(max=self.capacity)).remainder(self.num_slots)

    @property
    def num_bytes(self) -> int:
        """Device memory that the ring takes."""
        return self._initial_rows.nbytes + sum(block.rows.nbytes for block in self._blocks)

    def bytes_of(self, layout: RowLayout) -> int:
        """Device memory that further fields would take."""
        return self.num_slots * self.num_envs * layout.row_bytes

    def add(self, field: RecordField) -> None:
        """Makes room for a masked field that :meth:`amend` writes; steps so far do not have it."""
        layout = RowLayout([field])
        self._add_block(layout, layout.allocate(self.num_envs, device=self.device))

    def insert(self) -> None:
        """Appends a step of all environments: one copy of the packed rows into the slot of the cursor."""
        for block in self._blocks:
            block.rows.index_copy_(0, self.cursor, block.source[None])
        torch._foreach_add_((self.cursor, self.length), 1)
        self.cursor.remainder_(self.num_slots)

    def amend(self, key: str, value: torch.Tensor, mask: torch.Tensor) -> None:
        """Writes ``value`` (N, ...) into the latest step of the environments of ``mask`` (N,) bool."""
        slot = (self.cursor - 1).remainder_(self.num_slots)
        for name, new in ((key, value), (VALID + key, mask)):
            view = self.steps[name]
            row = view.index_select(0, slot)[0]
            view.index_copy_(0, slot, masked_copy_(row, new, mask)[None])

    def start_episodes(self, mask: torch.Tensor) -> None:
        """Begins an episode in the environments of ``mask`` (N,) bool, whose initial rows are new."""
        self.beginnings.add_(mask)
        # Rows of other environments are written too, with what is there: the beginning of their running episode.
        self._initial_rows.index_put_((self.beginnings.remainder(self.num_starts), self._env_ids), self._initial_source)
        masked_copy_(self.length, 0, mask)

    def select(self, slots: torch.Tensor, env_ids: torch.Tensor, out: torch.Tensor) -> None:
        """Copies single steps, packed, into ``out`` (..., W), contiguous: those of slots (...) int64 in environments
        (...) int64. On the device alone."""
        index = (slots * self.num_envs + env_ids).flatten()
        torch.index_select(self.rows.flatten(0, 1), 0, index, out=out.view(-1, out.shape[-1]))

    def gather(
        self, env_ids: Sequence[int], last_steps: Sequence[int], lengths: Sequence[int], starts: Sequence[int]
    ) -> tuple[list[PackedRows], PackedRows]:
        """Returns owned copies of episodes, one behind the other.

        Args:
            env_ids: Environment of each episode.
            last_steps: Number of its last step, counted in calls of :meth:`insert` from 0.
            lengths: Its steps, at most ``capacity``.
            starts: Which beginning of that environment it had, counted in calls of :meth:`start_episodes` from 0.

        Returns:
            Rows (sum of lengths, W), and rows (episodes, W').
        """
        env_id, last, length, start = (np.asarray(x, dtype=np.int64) for x in (env_ids, last_steps, lengths, starts))
        first_rows = np.cumsum(length) - length
        within = np.arange(length.sum()) - np.repeat(first_rows, length)
        slot = (np.repeat(last - length + 1, length) + within) % self.num_slots
        step_rows = self._index(slot * self.num_envs + np.repeat(env_id, length))
        start_rows = self._index(start % self.num_starts * self.num_envs + env_id)
        with torch.inference_mode(False), torch.no_grad():
            steps = [
                PackedRows(block.layout, block.rows.flatten(0, 1).index_select(0, step_rows)) for block in self._blocks
            ]
            initial = self._initial_rows.flatten(0, 1).index_select(0, start_rows)
        return steps, PackedRows(self._initial_layout, initial)

    def _add_block(self, layout: RowLayout, source: torch.Tensor) -> None:
        rows = layout.allocate(self.num_slots, self.num_envs, device=self.device)
        self._blocks.append(_Block(layout, source, rows, layout.views(rows)))

    def _index(self, index: np.ndarray) -> torch.Tensor:
        with torch.inference_mode(False):
            tensor = torch.from_numpy(index)
            if self.device.type == "cuda":
                return tensor.pin_memory().to(self.device, non_blocking=True)
            return tensor


def ring_bytes(step_layout: RowLayout, initial_layout: RowLayout, num_envs: int, capacity: int, lag: int) -> int:
    """Returns the device memory that a ring takes, before it is made."""
    return num_envs * (step_layout.row_bytes * (capacity + lag) + initial_layout.row_bytes * (lag + 2))
