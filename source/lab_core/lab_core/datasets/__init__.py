"""Recorded episodes on disk: files, and what reads, writes, checks and edits them. Needs no environment."""

from lab_core.datasets.check import check_recording
from lab_core.datasets.config import DatasetCfg
from lab_core.datasets.edit import merge, split
from lab_core.datasets.episode import Episode, EpisodeInfo
from lab_core.datasets.errors import DatasetError
from lab_core.datasets.provenance import Provenance, describe
from lab_core.datasets.reader import RecordedDataset
from lab_core.datasets.shard import Shard
from lab_core.datasets.windows import EpisodeDataset, ResidentWindows, WindowDataset
from lab_core.datasets.writer import DatasetWriter

__all__ = [
    "DatasetCfg",
    "DatasetError",
    "DatasetWriter",
    "Episode",
    "EpisodeDataset",
    "EpisodeInfo",
    "Provenance",
    "RecordedDataset",
    "ResidentWindows",
    "Shard",
    "WindowDataset",
    "check_recording",
    "describe",
    "merge",
    "split",
]
