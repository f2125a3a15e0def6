"""TensorBoard events of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter


class EventFile:
    """Writes scalars to ``folder``; the axis is the iteration. Points after ``iteration`` of earlier files go away."""

    def __init__(self, folder: Path, iteration: int = 0) -> None:
        self._writer = SummaryWriter(str(folder), purge_step=iteration + 1 if iteration else None)

    def add(self, iteration: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, iteration)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
