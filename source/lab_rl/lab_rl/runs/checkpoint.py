"""Checkpoints: everything that a run needs to go on, as bytes that depend on nothing else."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from lab_core.envs import RLEnv
from lab_core.errors import LabError
from lab_rl.runs.files import write_file
from lab_rl.term_widths import Terms, action_terms, observation_terms

FORMAT_VERSION = 1


class CheckpointError(LabError, ValueError):
    """A checkpoint cannot be read, or belongs to something else."""


@dataclass(kw_only=True)
class Checkpoint:
    """The state of a run after an iteration, and what it is a state of."""

    task: str
    config_hash: str
    num_envs: int
    observations: dict[str, Terms]
    """Terms of each observation group that the networks read."""
    actions: Terms
    config: str = ""
    """:meth:`lab_rl.runs.RunCfg.problem` as YAML."""
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """See :func:`lab_rl.runs.settings.settings_in_use`."""
    contract: dict[str, Any] = field(default_factory=dict)
    """See :func:`lab_core.rollouts.describe_contract`."""
    runner: dict[str, Any]
    """See :meth:`lab_rl.algorithms.Runner.state_dict`; of a run of several processes, what these share."""
    processes: list[dict[str, Any] | None] = field(default_factory=list)
    """What each of several processes has of its own; None for one that was lost."""

    @property
    def iteration(self) -> int:
        return self.runner["iteration"]

    def check(self, path: Path, task: str, env: RLEnv) -> None:
        """Raises ``CheckpointError`` when this checkpoint, read from ``path``, is not of ``task`` or of other terms."""
        if task != self.task:
            raise CheckpointError(f"{path} is a checkpoint of {self.task}, not of {task}.")
        terms = observation_terms(env)
        for group, stored in self.observations.items():
            _compare(path, f"observation group {group!r}", stored, terms.get(group))
        _compare(path, "the action", self.actions, action_terms(env))


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes ``checkpoint``; equal checkpoints give equal bytes.

    Raises:
        LabError: The file cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(_canonical({"format_version": FORMAT_VERSION, **vars(checkpoint)}), buffer)
    write_file(path, buffer.getvalue())


def load_checkpoint(path: Path) -> Checkpoint:
    """Reads a checkpoint; its tensors are on the CPU.

    Reading executes nothing in the file. Resuming imports what changed settings of terms name, as ``config.yaml`` does.

    Raises:
        CheckpointError: The file is damaged, is something else, or is of another format version.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"Cannot read the checkpoint {path}: {reason}") from error
    version = content.pop("format_version", None) if isinstance(content, dict) else None
    if version != FORMAT_VERSION:
        raise CheckpointError(f"{path} has checkpoint format {version}, this lab_rl reads format {FORMAT_VERSION}.")
    content["observations"] = {group: _terms(terms) for group, terms in content["observations"].items()}
    content["actions"] = _terms(content["actions"])
    return Checkpoint(**content)


def _canonical(value: Any) -> Any:
    """An equal value without shared parts, so that its pickle depends on the values alone."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, Mapping):
        return {_canonical(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, tuple):
        return tuple([_canonical(item) for item in value])
    return sys.intern(value) if isinstance(value, str) else value


def _terms(stored: list[Any]) -> Terms:
    return [(name, width) for name, width in stored]


def _compare(path: Path, what: str, stored: Terms, present: Terms | None) -> None:
    if stored == present:
        return
    if present is None:
        raise CheckpointError(f"{path} was trained with {what}, which this environment does not have.")
    raise CheckpointError(f"{path}: {what} was {_layout(stored)} in training and is {_layout(present)} here.")


def _layout(terms: Terms) -> str:
    return f"{sum(width for _, width in terms)} wide ({', '.join(f'{name} {width}' for name, width in terms)})"
