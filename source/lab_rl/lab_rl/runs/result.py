"""How a training run ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended."""

    iteration: int
    interrupted: bool
    reward: float | None
    """Mean return of the last 100 episodes."""
    best_reward: float | None
    best_iteration: int | None
    episode_length: float | None
    seconds: float
    """Of the whole run, interruptions not counted."""
    checkpoint: Path
    video: Path | None
