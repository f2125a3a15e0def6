"""One recorded episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class EpisodeInfo:
    """Where an episode comes from and how it ended."""

    env_id: int
    """Environment."""
    episode_index: int
    """Episodes with at least one step that this environment had before."""
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


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``{"a/b": x}`` as ``{"a": {"b": x}}``."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *path, leaf = key.split("/")
        node = tree
        for name in path:
            node = node.setdefault(name, {})
        node[leaf] = value
    return tree
