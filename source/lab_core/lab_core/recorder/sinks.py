"""Who receives episodes that have ended, and in what form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from lab_core.datasets.episode import Episode, EpisodeInfo
from lab_core.recorder.monitor import CopyEvent
from lab_core.recorder.rows import RowLayout


@dataclass(frozen=True)
class PackedRows:
    """Rows (R, W) int64 and what they hold."""

    layout: RowLayout
    rows: torch.Tensor

    def views(self) -> dict[str, torch.Tensor]:
        """Returns key -> (R, ...)."""
        return self.layout.views(self.rows)

    def to_host(self) -> PackedRows:
        """Starts copying the rows into pinned memory of the host, and returns the copy."""
        if not self.rows.is_cuda:
            return self
        host = torch.empty(self.rows.shape, dtype=self.rows.dtype, pin_memory=True)
        return PackedRows(self.layout, host.copy_(self.rows, non_blocking=True))


@dataclass(frozen=True)
class EpisodeBatch:
    """Episodes that ended together, one behind the other; owned by the receiver."""

    infos: Sequence[EpisodeInfo]
    steps: Sequence[PackedRows]
    """Rows of all steps; more than one where values were added by hand."""
    initial: PackedRows
    """One row per episode."""

    def __len__(self) -> int:
        return len(self.infos)

    def to_host(self) -> tuple[EpisodeBatch, Callable[[], None]]:
        """Starts copying the batch to the host, once, beside what the device does next.

        Returns:
            The batch in memory of the host, and what waits until the copy is complete.
        """
        host = EpisodeBatch(self.infos, [rows.to_host() for rows in self.steps], self.initial.to_host())
        copied = CopyEvent(self.initial.rows.device)
        copied.record()
        return host, copied.wait

    def __iter__(self) -> Iterator[Episode]:
        """Yields episodes with memory of their own."""
        for episode in self.views():
            yield Episode(episode.info, _owned(episode.steps), _owned(episode.initial))

    def views(self) -> Iterator[Episode]:
        """Yields episodes that are views of this batch, for receivers that do not keep them."""
        steps = {key: value for rows in self.steps for key, value in rows.views().items()}
        initial = self.initial.views()
        start = 0
        for index, info in enumerate(self.infos):
            rows = slice(start, start + info.length)
            start += info.length
            yield Episode(
                info,
                {key: value[rows] for key, value in steps.items()},
                {key: value[index] for key, value in initial.items()},
            )


def _owned(views: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    with torch.inference_mode(False):
        return {key: value.clone(memory_format=torch.contiguous_format) for key, value in views.items()}


class EpisodeSink(Protocol):
    """Receives episodes that have ended: a file writer, or a learner's memory."""

    def accepts(self, info: EpisodeInfo) -> bool:
        """Whether it wants this episode; the others are counted as filtered."""
        ...

    def write(self, batch: EpisodeBatch) -> None:
        """Takes over episodes, on the device of the environment. It may be called in every step."""
        ...

    def check(self) -> None:
        """Raises what went wrong since the last call, if anything did. It is called in every step."""

    def close(self) -> None:
        """Finishes its work; called once."""


class EpisodeCollector:
    """A sink that keeps every episode in a list, on the device of the environment; for scripts and tests."""

    def __init__(self) -> None:
        self.episodes: list[Episode] = []

    def accepts(self, info: EpisodeInfo) -> bool:
        return True

    def write(self, batch: EpisodeBatch) -> None:
        self.episodes.extend(batch)

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass
