"""Recorded episodes as physics steps: what each began with, the effort of the joints, and what it led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lab_core.datasets import DatasetError, RecordedDataset
from lab_newton.nerd import Contacts
from lab_rl.nerd.step_contacts import COLUMNS, check_contacts, pad_and_join, read_contacts

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
    contact_geometry: Tensor | None = None
    """(R, K, 13) contacts at the beginning, see :class:`lab_core.sensors.ContactSetData`; None where none were read."""
    contact_owner: Tensor | None = None
    """(R, K) uint8, the part that feels each, counted as in :attr:`lab_newton.nerd.Representation.feature_owners`."""
    contact_valid: Tensor | None = None
    """(R, K) bool, where there is one; K is the most that a step has."""
    origin: Tensor | None = None
    """(R, 3) origin of the environment [m], world frame; read with contacts, which depend on the ground there."""
    incomplete: int = 0
    """Steps that were left out when this was read, because some of their contacts had found no place."""

    def __len__(self) -> int:
        return len(self.q)

    @property
    def num_episodes(self) -> int:
        """Number of episodes."""
        return int(self.episode[-1]) + 1 if len(self) else 0

    def to(self, device: torch.device | str) -> PhysicsSteps:
        """Returns the same steps in the memory of ``device``."""
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **moved)

    def contacts(self, rows: Tensor) -> Contacts | None:
        """Returns the contacts at the beginning of steps ``rows`` (...), each of shape (..., K, ...); None where none
        were read."""
        if self.contact_geometry is None or self.contact_owner is None or self.contact_valid is None:
            return None
        return Contacts(self.contact_geometry[rows], self.contact_owner[rows], self.contact_valid[rows])

    def select(self, rows: Tensor) -> PhysicsSteps:
        """Returns the rows of a mask (R,) bool, which keeps or drops whole episodes."""
        chosen = {name: value[rows] for name, value in vars(self).items() if isinstance(value, Tensor)}
        chosen["episode"] = torch.unique_consecutive(chosen["episode"], return_inverse=True)[1]
        return replace(self, **chosen)


def read_physics_steps(
    sources: Sequence[RecordedDataset],
    entity: str,
    joint_names: Sequence[str],
    floating: bool,
    with_contacts: bool = False,
) -> PhysicsSteps:
    """Reads recordings made with :func:`lab_core.recorder.physics_step_terms`.

    Args:
        sources: The recordings, of one robot.
        entity: Its name in the scene.
        joint_names: Its joints in the order in which they are wanted.
        floating: Whether its root is free.
        with_contacts: Read contacts too. Steps in which some of them found no place are left out.

    Raises:
        DatasetError: a recording lacks these values, or is of other joints.
    """
    parts: list[dict[str, np.ndarray]] = []
    incomplete = 0
    episodes, regimes, labels = [], [], []
    for source in sources:
        _check(source, entity, joint_names)
        if with_contacts:
            check_contacts(source)
        for index, info in enumerate(source.infos):
            label = info.label or "unlabelled"
            if label not in labels:
                labels.append(label)
            part = _read_episode(source, index, entity, floating)
            if with_contacts:
                part |= read_contacts(source, index, len(part["q"]), num_parts=len(joint_names) + floating)
                incomplete += _leave_out_incomplete(part)
            if not len(part["q"]):
                continue
            regimes.append(np.full(len(part["q"]), labels.index(label)))
            episodes.append(np.full(len(part["q"]), len(parts)))
            parts.append(part)
    if not parts:
        paths = ", ".join(str(source.path) for source in sources)
        why = f": {incomplete} have more contacts than the sensor has places; raise its capacity" if incomplete else ""
        raise DatasetError(f"{paths}: no step that could be learned from{why}.")
    columns: dict[str, Any] = {}
    for name in list(parts[0]):
        join = pad_and_join if name in COLUMNS else np.concatenate
        columns[name] = torch.from_numpy(join([part.pop(name) for part in parts]))  # frees what has been joined
    columns["episode"] = torch.from_numpy(np.concatenate(episodes))
    columns["regime"] = torch.from_numpy(np.concatenate(regimes))
    return PhysicsSteps(**columns, regimes=tuple(labels), incomplete=incomplete)


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


def _leave_out_incomplete(part: dict[str, np.ndarray]) -> int:
    """Removes the steps of an episode that are not ``complete``, and that column; returns how many there were."""
    complete = part.pop("complete")
    part["joins"][:-1] &= complete[1:]
    for name in part:
        part[name] = part[name][complete]
    return int((~complete).sum())


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
