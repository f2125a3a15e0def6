"""Recorded episodes as training data: whole, or cut into windows, from files, mapped files, or device memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch.utils.data import Dataset

from lab_core.datasets.episode import EpisodeInfo
from lab_core.datasets.errors import DatasetError
from lab_core.datasets.reader import RecordedDataset

Storage = Literal["read", "mapped"]
"""``read``: from the file each time. ``mapped``: from memory-mapped files, where they are not compressed."""
Sample = dict[str, torch.Tensor]


class EpisodeDataset(Dataset[Sample]):
    """Whole episodes. Item ``i`` maps keys to (L, ...), and initial keys to (...).

    Args:
        source: The recording.
        keys: What to read; a key stands for all below it. None: everything.
        episodes: Indices of the episodes to use. None: all.
    """

    def __init__(
        self, source: RecordedDataset, keys: Sequence[str] | None = None, episodes: Sequence[int] | None = None
    ) -> None:
        self._source = source
        self._keys = keys
        self.episodes = list(range(len(source)) if episodes is None else episodes)

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, index: int) -> Sample:
        episode = self._source.load(self.episodes[index], self._keys)
        return episode.initial | episode.steps


class WindowDataset(Dataset[Sample]):
    """Windows of consecutive steps that never cross the end of an episode. Item ``i`` maps keys to (length, ...).

    Args:
        source: The recording.
        keys: Step keys to read; a key stands for all below it.
        length: Steps of a window.
        stride: Steps from one window to the next of the same episode.
        episodes: Indices of the episodes to use. None: all.
        storage: How to read.

    Raises:
        DatasetError: there is no such key, or no episode is long enough.
    """

    def __init__(
        self,
        source: RecordedDataset,
        keys: Sequence[str],
        length: int,
        stride: int = 1,
        episodes: Sequence[int] | None = None,
        storage: Storage = "read",
    ) -> None:
        self._source = source
        self._mapped = storage == "mapped"
        self.length = length
        self.keys = step_keys(source, keys)
        self.episode_of_window, self.first_steps = find_windows(source, length, stride, episodes)

    def __len__(self) -> int:
        return len(self.first_steps)

    def __getitem__(self, index: int) -> Sample:
        first = int(self.first_steps[index])
        rows = slice(first, first + self.length)
        episode = int(self.episode_of_window[index])
        return {
            key: torch.from_numpy(np.array(self._source.array(episode, key, rows, mapped=self._mapped)))
            for key in self.keys
        }


class ResidentWindows:
    """The windows of :class:`WindowDataset` with all data in the memory of a device; batches are gathered there.

    Args:
        source: The recording.
        keys: Step keys to load; a key stands for all below it.
        length: Steps of a window.
        stride: Steps from one window to the next of the same episode.
        episodes: Indices of the episodes to use. None: all.
        device: Where the data lie.

    Raises:
        DatasetError: there is no such key, or no episode is long enough.
    """

    def __init__(
        self,
        source: RecordedDataset,
        keys: Sequence[str],
        length: int,
        stride: int = 1,
        episodes: Sequence[int] | None = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.length = length
        self.keys = step_keys(source, keys)
        episode_of_window, first_steps = find_windows(source, length, stride, episodes)
        used = np.unique(episode_of_window)
        lengths = np.array([source.infos[episode].length for episode in used])
        first_rows = dict(zip(used.tolist(), (np.cumsum(lengths) - lengths).tolist(), strict=True))
        self.data = {
            key: torch.cat([torch.from_numpy(np.array(source.array(int(e), key))) for e in used]).to(device)
            for key in self.keys
        }
        """Key -> (steps of all episodes, ...)."""
        starts = np.array([first_rows[episode] for episode in episode_of_window.tolist()]) + first_steps
        self.starts = torch.from_numpy(starts).to(device)
        """(windows,) row of :attr:`data` where each begins."""
        self._offsets = torch.arange(length, device=device)

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, indices: torch.Tensor) -> Sample:
        """Returns the windows ``indices`` (B,) as key -> (B, length, ...)."""
        rows = self.starts[indices][:, None] + self._offsets
        return {key: value[rows] for key, value in self.data.items()}

    def sample(self, batch_size: int, generator: torch.Generator | None = None) -> Sample:
        """Returns ``batch_size`` windows drawn with replacement; ``generator`` must be on the device."""
        indices = torch.randint(len(self), (batch_size,), generator=generator, device=self.starts.device)
        return self.batch(indices)


def step_keys(source: RecordedDataset, keys: Sequence[str]) -> list[str]:
    """Returns the full step keys that ``keys`` stand for.

    Raises:
        DatasetError: a key stands for none.
    """
    available = source.step_keys
    chosen = []
    for key in keys:
        below = [name for name in available if name == key or name.startswith(f"{key}/")]
        if not below:
            raise DatasetError(f"{source.path} has no values per step called {key!r}; there are {available}.")
        chosen += below
    return chosen


def find_windows(
    source: RecordedDataset, length: int, stride: int = 1, episodes: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns episode (W,) and first step (W,) of every window.

    Raises:
        DatasetError: no episode is long enough, or a number is not positive.
    """
    if length < 1 or stride < 1:
        raise DatasetError(f"A window needs a positive length and stride, got {length} and {stride}.")
    chosen = range(len(source)) if episodes is None else episodes
    starts = [(episode, np.arange(0, usable_steps(source.infos[episode]) - length + 1, stride)) for episode in chosen]
    if not sum(len(steps) for _, steps in starts):
        longest = max((info.length for info in source.infos), default=0)
        raise DatasetError(f"No chosen episode of {source.path} has {length} steps; the longest has {longest}.")
    episode_of_window = np.concatenate([np.full(len(steps), episode) for episode, steps in starts])
    return episode_of_window, np.concatenate([steps for _, steps in starts])


def usable_steps(info: EpisodeInfo) -> int:
    """Steps to learn from: a last step in which the physics failed has no true next state."""
    return info.length - info.non_finite
