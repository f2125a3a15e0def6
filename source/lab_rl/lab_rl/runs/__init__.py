"""Run folders: what they hold, how they are written and found."""

from lab_rl.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from lab_rl.runs.config import RunCfg
from lab_rl.runs.folder import RunFolder, find_checkpoint, latest_run

__all__ = [
    "Checkpoint",
    "RunCfg",
    "RunFolder",
    "find_checkpoint",
    "latest_run",
    "load_checkpoint",
    "save_checkpoint",
]
