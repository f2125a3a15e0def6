"""What is handed on of an episode, alone or with others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from lab_core.recorder.rows import RowLayout
from lab_core.recorder.transition import nested


@dataclass(frozen=True, kw_only=True)
class EpisodeInfo:
    """Where an episode comes from and how it ended."""

    env_id: int
    """World."""
    episode_index: int
    """Episodes with at least one step that this world had before."""
    start_step: int
    """Environment step in which the first kept step was made."""
    length: int
    """Steps kept."""
    dropped_steps: int = 0
    """Steps at the beginning that were not kept, because the episode outgrew the ring."""
    terminated: bool = False
    truncated: bool = False
    success: bool = False
    complete: bool = True
    """False: the episode was cut off from outside, by a reset or the end of the recording."""
    non_finite: bool = False
    """The physics of the last step failed: its next state is the default state, and no result of the action."""
    seed: int = 0
    label: str = ""


@dataclass(frozen=True)
class Episode:
    """One episode that belongs to its holder: it shares no memory with the recorder.

    Step ``t`` holds what the policy was given and did, and what came of it; ``len(episode)`` is the number of steps.
    """

    info: EpisodeInfo
    steps: dict[str, torch.Tensor]
    """Key -> (L, ...)."""
    initial: dict[str, torch.Tensor]
    """Key -> (...), what held when the episode began."""

    def __len__(self) -> int:
        return self.info.length

    def nested(self) -> dict[str, Any]:
        """Returns all values as nested dicts, in which the initial ones have a leading axis of length 1."""
        return nested(self.steps | {key: value[None] for key, value in self.initial.items()})


@dataclass(frozen=True)
class PackedRows:
    """Rows (R, W) int64 and what they hold."""

    layout: RowLayout
    rows: torch.Tensor

    def views(self) -> dict[str, torch.Tensor]:
        """Returns key -> (R, ...)."""
        return self.layout.views(self.rows)


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
