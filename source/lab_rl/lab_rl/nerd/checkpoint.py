"""Checkpoints of a fit: everything that it needs to go on, bit for bit."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lab_newton import FitCfg
from lab_newton.nerd import RobotLayout
from lab_rl.runs.checkpoint import CheckpointError
from lab_rl.runs.files import write_file

VERSION = 2
_KIND = "lab NeRD fit"


@dataclass(kw_only=True)
class FitCheckpoint:
    """The state of a fit after an update, and what it is a state of."""

    cfg: FitCfg
    layout: RobotLayout
    fingerprint: dict[str, Any]
    """Of the physics that the data are of."""
    sources: list[dict[str, Any]]
    """The data: name, episodes and SHA-256 of each file."""
    pose_scale: Tensor
    trainer: dict[str, Any]
    """See :meth:`lab_rl.nerd.trainer.Trainer.state_dict`."""
    samplers: list[dict[str, Any]]
    """Of each process, in order of rank."""

    @property
    def update(self) -> int:
        """Updates made."""
        return self.trainer["update_count"]


def save_checkpoint(path: Path, checkpoint: FitCheckpoint) -> None:
    """Writes it, whole or not at all.

    Raises:
        LabError: the file cannot be written.
    """
    described = {
        "cfg": asdict(checkpoint.cfg),
        "layout": checkpoint.layout.to_dict(),
        "fingerprint": checkpoint.fingerprint,
        "sources": checkpoint.sources,
    }
    content = {
        "kind": _KIND,
        "version": VERSION,
        "described": json.dumps(described),
        "pose_scale": checkpoint.pose_scale,
        "trainer": checkpoint.trainer,
        "samplers": checkpoint.samplers,
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_file(path, buffer.getvalue())


def load_checkpoint(path: Path) -> FitCheckpoint:
    """Reads a checkpoint onto the CPU, without running anything that the file holds.

    Raises:
        CheckpointError: the file is damaged, is something else, or is of another version.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"Cannot read the checkpoint {path}: {reason}") from error
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise CheckpointError(f"{path} is no checkpoint of `lab nerd fit`.")
    if content.get("version") != VERSION:
        raise CheckpointError(f"{path} has version {content.get('version')}, this lab_rl reads version {VERSION}.")
    described = json.loads(content["described"])
    return FitCheckpoint(
        cfg=FitCfg(**described["cfg"]),
        layout=RobotLayout.from_dict(described["layout"]),
        fingerprint=described["fingerprint"],
        sources=described["sources"],
        pose_scale=content["pose_scale"],
        trainer=content["trainer"],
        samplers=content["samplers"],
    )
