"""Recorded episodes as physics steps: what each began with, the effort of the joints, and what it led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lab_core.datasets import DatasetError, RecordedDataset

_STATES = ("root_pose", "root_velocity", "joint_position", "joint_velocity")


@dataclass(frozen=True)
class PhysicsSteps:
    """R physics steps of one robot, those of an episode in the order of time; all tensors on one device.

    Positions and velocities are those of :class:`lab_newton.nerd.RobotLayout`, root positions relative to the origin
    of the environment.
    """

    q: Tensor
    """(R, Q) positions at the beginning."""
    qd: Tensor
    """(R, V) velocities at the beginning."""
    effort: Tensor
    """(R, J) effort of each joint during the step [N or N m]."""
    q_next: Tensor
    """(R, Q) positions at the end."""
    qd_next: Tensor
    """(R, V) velocities at the end."""
    joins: Tensor
    """(R,) bool, whether the next row begins, bit for bit, where this one ends, in the same episode."""
    episode: Tensor
    """(R,) number of the episode."""
    regime: Tensor
    """(R,) index into :attr:`regimes`."""
    regimes: tuple[str, ...]
    """Labels of the recordings."""

    def __len__(self) -> int:
        return len(self.q)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return int(self.episode[-1]) + 1 if len(self) else 0

    def to(self, device: torch.device | str) -> PhysicsSteps:
        """Returns the same steps in the memory of ``device``."""
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return PhysicsSteps(**moved, regimes=self.regimes)

    def select(self, rows: Tensor) -> PhysicsSteps:
        """Returns the rows of a mask (R,) bool, which keeps or drops whole episodes."""
        chosen = {name: value[rows] for name, value in vars(self).items() if isinstance(value, Tensor)}
        chosen["episode"] = torch.unique_consecutive(chosen["episode"], return_inverse=True)[1]
        return PhysicsSteps(**chosen, regimes=self.regimes)


def read_physics_steps(
    sources: Sequence[RecordedDataset], entity: str, joint_names: Sequence[str], floating: bool
) -> PhysicsSteps:
    """Reads recordings made with :func:`lab_core.recorder.physics_step_terms`.

    Args:
        sources: The recordings, of one robot.
        entity: Its name in the scene.
        joint_names: Its joints in the order in which they are wanted.
        floating: Whether its root is free.

    Raises:
        DatasetError: a recording lacks these values, or is of other joints.
    """
    parts: list[dict[str, np.ndarray]] = []
    episodes, regimes, labels = [], [], []
    for source in sources:
        _check(source, entity, joint_names)
        for index, info in enumerate(source.infos):
            label = info.label or "unlabelled"
            if label not in labels:
                labels.append(label)
            part = _read_episode(source, index, entity, floating)
            if not len(part["q"]):
                continue
            regimes.append(np.full(len(part["q"]), labels.index(label)))
            episodes.append(np.full(len(part["q"]), len(parts)))
            parts.append(part)
    if not parts:
        raise DatasetError(f"{', '.join(str(source.path) for source in sources)}: no step that could be learned from.")
    columns: dict[str, Any] = {
        name: torch.from_numpy(np.concatenate([part[name] for part in parts])) for name in parts[0]
    }
    columns["episode"] = torch.from_numpy(np.concatenate(episodes))
    columns["regime"] = torch.from_numpy(np.concatenate(regimes))
    return PhysicsSteps(**columns, regimes=tuple(labels))


def _read_episode(source: RecordedDataset, index: int, entity: str, floating: bool) -> dict[str, np.ndarray]:
    info = source.infos[index]
    usable = slice(0, info.length - info.non_finite)  # a step in which the physics failed has no true end

    def read(key: str) -> np.ndarray:
        return np.asarray(source.array(index, key, usable), dtype=np.float32)

    def coordinates(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        pose, velocity, position, speed = (read(f"{prefix}/articulation/{entity}/{name}") for name in _STATES)
        if not floating:
            return position, speed
        return np.concatenate((pose, position), axis=-1), np.concatenate((velocity, speed), axis=-1)

    first_q, first_qd = coordinates("pre_states")  # (L, ...)
    end_q, end_qd = coordinates("substep_states")  # (L, K, ...)
    effort = read(f"substep_efforts/{entity}")
    q = np.concatenate((first_q[:, None], end_q[:, :-1]), axis=1)
    qd = np.concatenate((first_qd[:, None], end_qd[:, :-1]), axis=1)
    rows = {name: value.reshape(-1, value.shape[-1]) for name, value in _named(q, qd, effort, end_q, end_qd)}
    return {**rows, "joins": _joins(rows)}


def _named(*values: np.ndarray) -> zip[tuple[str, np.ndarray]]:
    return zip(("q", "qd", "effort", "q_next", "qd_next"), values, strict=True)


def _joins(rows: dict[str, np.ndarray]) -> np.ndarray:
    """Bit for bit: a push, a reset inside an episode or a dropped step leaves a gap, however small."""
    joins = np.zeros(len(rows["q"]), dtype=bool)
    for begin, end in (("q", "q_next"), ("qd", "qd_next")):
        same = (rows[begin][1:].view(np.int32) == rows[end][:-1].view(np.int32)).all(axis=-1)
        joins[:-1] = same if begin == "q" else joins[:-1] & same
    return joins


def _check(source: RecordedDataset, entity: str, joint_names: Sequence[str]) -> None:
    names = source.entity_names(entity, "joint_names")
    if names is None:
        raise DatasetError(f"{source.path} holds no entity {entity!r}.")
    if list(names) != list(joint_names):
        raise DatasetError(f"{source.path} is of the joints {names}, the robot has {list(joint_names)}.")
    needed = [
        f"{prefix}/articulation/{entity}/{name}" for prefix in ("pre_states", "substep_states") for name in _STATES
    ]
    available = source.step_keys
    if missing := [key for key in (*needed, f"substep_efforts/{entity}") if key not in available]:
        raise DatasetError(
            f"{source.path} lacks {', '.join(missing)}: it was not recorded by `lab nerd record`, which keeps every "
            "physics step."
        )


def describe_sources(sources: Sequence[RecordedDataset]) -> list[dict[str, Any]]:
    """Returns where training data come from, for model files and reports: path, episodes and SHA-256 of each file."""
    import hashlib

    return [
        {"file": Path(path).name, "episodes": len(infos), "sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest()}
        for source in sources
        for path, infos in source.files
    ]
