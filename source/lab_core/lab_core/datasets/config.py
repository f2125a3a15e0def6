"""Where to write recorded episodes, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from lab_core.config import MISSING, NonNegative, Settings, Within

ExportMode = Literal["all", "successful", "separate"]


@dataclass(kw_only=True)
class DatasetCfg(Settings):
    """Writes episodes that have ended to HDF5 files, in a thread of its own."""

    folder: Path = MISSING
    name: str = "dataset"
    """Files are called ``<name>-00000.hdf5``, ..."""
    mode: ExportMode = "all"
    """Which episodes: all; the successful ones; or all, the failed ones in files ``<name>_failed-00000.hdf5``, ..."""
    existing: Literal["refuse", "overwrite", "resume"] = "refuse"
    """What to do when the folder already holds files of this name."""
    env_name: str = ""
    """Task id, stored in the files."""
    label: str = ""
    """Regime of the episodes, such as ``walking``, stored with each of them."""
    compression: Annotated[int, Within(0, 9)] = 0
    """Level of gzip, 1 .. 9. 0 stores plain arrays, which readers can map into memory."""
    shard_megabytes: NonNegative = 64.0
    """A file is finished when it holds so much."""
    shard_seconds: NonNegative = 60.0
    """A file with an episode in it is finished at the latest after this time: what a crash can cost."""
