"""Recording of every step: what to record, episodes, files, and readers."""

from lab_core.recorder.config import DatasetCfg, RecorderCfg, RecorderTermCfg, RetentionCfg
from lab_core.recorder.episode import Episode, EpisodeBatch, EpisodeCollector, EpisodeInfo, EpisodeSink
from lab_core.recorder.errors import DatasetError, RecorderError
from lab_core.recorder.manager import RecorderManager
from lab_core.recorder.rows import RecordField
from lab_core.recorder.transition import MaskedRows, Transition

__all__ = [
    "DatasetCfg",
    "DatasetError",
    "Episode",
    "EpisodeBatch",
    "EpisodeCollector",
    "EpisodeInfo",
    "EpisodeSink",
    "MaskedRows",
    "RecordField",
    "RecorderCfg",
    "RecorderError",
    "RecorderManager",
    "RecorderTermCfg",
    "RetentionCfg",
    "Transition",
]
