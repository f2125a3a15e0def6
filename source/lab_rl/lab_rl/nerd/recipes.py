"""The settings that a fit begins with."""

from __future__ import annotations

from pathlib import Path

from lab_core.datasets import RecordedDataset
from lab_core.registry import get_task, task_ids
from lab_newton import FitCfg
from lab_rl.nerd.checkpoint import load_checkpoint


def recipe_of(source: RecordedDataset, checkpoint: Path | None = None) -> FitCfg:
    """Returns the settings of ``checkpoint``, else those of the task that ``source`` was recorded in, else defaults."""
    if checkpoint is not None:
        return load_checkpoint(checkpoint).cfg
    task = str(source.parsed_attribute("env_args", {}).get("env_name", ""))
    spec = get_task(task) if task in task_ids() else None
    return FitCfg() if spec is None or spec.dynamics_cfg is None else spec.make_dynamics_cfg()
