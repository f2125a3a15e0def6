"""The native format of a motion: where the root is, and the angle of every joint, frame by frame, keyed by names."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab_core.errors import LabError

FORMAT = "lab.motion"
FORMAT_VERSION = 1
UNIT_TOLERANCE = 1e-3
"""How far the norm of a stored quaternion may be from one."""

Array = NDArray[np.float64]
_ARRAYS = ("root_pos", "root_quat", "joint_pos")
_TEXTS = ("name", "source", "source_sha256", "licence")
_KEYS = ("format", "format_version", "fps", "joint_names", "history", *_ARRAYS, *_TEXTS)


class MotionError(LabError, ValueError):
    """A motion, or a file that should hold one, is not what it must be."""


@dataclass(frozen=True, kw_only=True)
class MotionClip:
    """A motion of one robot in ``T`` frames at a fixed rate.

    It holds no velocities and no bodies: the former follow from the interpolating splines
    (:func:`~lab_tasks.motions.velocities`), the latter from the robot's model, so nothing in a file can contradict the
    poses. Quaternions are normalised, and their signs made continuous, when a clip is made.

    Raises:
        MotionError: shapes do not fit each other, there are fewer than two frames, a number is not finite, a quaternion
            is not of unit length within :data:`UNIT_TOLERANCE`, the rate is not positive, or a joint is named twice.
    """

    name: str
    fps: float
    """Frames per second."""
    joint_names: tuple[str, ...]
    root_pos: Array
    """Origin of the root link ``(T, 3)`` in the world, z up [m]."""
    root_quat: Array
    """Orientation of the root link ``(T, 4)``, xyzw, from root to world."""
    joint_pos: Array
    """Joint angles ``(T, J)`` in the order of ``joint_names`` [rad]."""
    source: str = ""
    """Where the motion comes from: a file, or how it was made."""
    source_sha256: str = ""
    """Hash of that file, empty without one."""
    licence: str = ""
    """Under which terms the motion may be used, as far as known."""
    history: tuple[str, ...] = ()
    """What was done to it since, oldest first."""

    def __post_init__(self) -> None:
        for key in _ARRAYS:
            object.__setattr__(self, key, _finite(self.name, key, getattr(self, key)))
        frames = len(self.root_pos)
        for key, width in (("root_pos", 3), ("root_quat", 4), ("joint_pos", len(self.joint_names))):
            if (shape := getattr(self, key).shape) != (frames, width):
                raise MotionError(f"Motion {self.name!r}: {key} must have the shape {(frames, width)}, got {shape}.")
        if frames < 2:
            raise MotionError(f"Motion {self.name!r} must have at least 2 frames, got {frames}.")
        if not (np.isfinite(self.fps) and self.fps > 0.0):
            raise MotionError(f"Motion {self.name!r}: fps must be positive, got {self.fps}.")
        if twice := sorted({name for name in self.joint_names if self.joint_names.count(name) > 1}):
            raise MotionError(f"Motion {self.name!r} names joints twice: {', '.join(twice)}.")
        object.__setattr__(self, "root_quat", continuous_quat(self.name, self.root_quat))

    def __len__(self) -> int:
        """Returns the number of frames."""
        return len(self.root_pos)

    @property
    def duration(self) -> float:
        """Time from the first to the last frame [s]."""
        return (len(self) - 1) / self.fps

    @property
    def sha256(self) -> str:
        """Hash of what moves, and how fast: names, rate and poses, not of where it came from."""
        digest = hashlib.sha256(repr((self.fps, self.joint_names)).encode())
        for key in _ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, key)).tobytes())
        return digest.hexdigest()

    def changed(self, step: str, **fields: Any) -> MotionClip:
        """Returns a copy with other ``fields``, and ``step`` in its history."""
        return replace(self, history=(*self.history, step), **fields)

    def with_joints(self, joint_names: Sequence[str]) -> MotionClip:
        """Returns the clip with its joints in another order.

        Raises:
            MotionError: the clip lacks one of the joints, or has one that is not asked for.
        """
        missing = [name for name in joint_names if name not in self.joint_names]
        unknown = [name for name in self.joint_names if name not in joint_names]
        if missing or unknown:
            raise MotionError(
                f"Motion {self.name!r} is not of this robot. It lacks the joints: {', '.join(missing) or 'none'}; the "
                f"robot has no joints: {', '.join(unknown) or 'none'}."
            )
        columns = [self.joint_names.index(name) for name in joint_names]
        return replace(self, joint_names=tuple(joint_names), joint_pos=self.joint_pos[:, columns])


def continuous_quat(name: str, quat: Array) -> Array:
    """Returns unit quaternions ``(T, 4)`` in which neighbours never differ in sign alone, the first with w >= 0.

    Raises:
        MotionError: one is not of unit length within :data:`UNIT_TOLERANCE`; ``name`` is that of the motion.
    """
    norms = np.linalg.norm(quat, axis=-1)
    if wrong := np.flatnonzero(np.abs(norms - 1.0) > UNIT_TOLERANCE).tolist():
        raise MotionError(
            f"Motion {name!r}: root_quat must be of unit length; in {len(wrong)} of {len(norms)} frames it is not, "
            f"first in frame {wrong[0]} with norm {norms[wrong[0]]:.4f}."
        )
    quat = quat / norms[:, None]
    turns = np.where(np.sum(quat[1:] * quat[:-1], axis=-1) < 0.0, -1.0, 1.0)
    first = -1.0 if quat[0, 3] < 0.0 else 1.0
    return quat * np.cumprod(np.concatenate(([first], turns)))[:, None]


def save_clip(clip: MotionClip, path: Path) -> None:
    """Writes a clip as npz.

    Raises:
        MotionError: the file cannot be written, or is not called ``.npz``.
    """
    if path.suffix != ".npz":
        raise MotionError(f"A motion is kept as .npz, got {str(path)!r}.")
    fields = {key: getattr(clip, key) for key in _KEYS if key not in ("format", "format_version", "name")}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, format=FORMAT, format_version=FORMAT_VERSION, name=clip.name, **fields)
    except OSError as error:
        raise MotionError(f"Cannot write {path}: {error}.") from error


def load_clip(path: Path) -> MotionClip:
    """Reads a clip that :func:`save_clip` wrote.

    Raises:
        MotionError: the file cannot be read, is of another format or a newer version, lacks a key or has an unknown
            one, or holds what no clip may.
    """
    data = read_npz(path)
    if str(data.get("format", "")) != FORMAT:
        raise MotionError(
            f"{path} is not a motion in our own format (its keys: {', '.join(sorted(data))}); see `lab motion convert`."
        )
    if (version := int(data["format_version"]) if "format_version" in data else 0) != FORMAT_VERSION:
        raise MotionError(f"{path} has format version {version}; this version reads {FORMAT_VERSION}.")
    if problem := _key_problem(data):
        raise MotionError(f"{path} {problem}.")
    return MotionClip(
        name=str(data["name"]),
        fps=float(data["fps"]),
        joint_names=tuple(map(str, data["joint_names"])),
        root_pos=data["root_pos"],
        root_quat=data["root_quat"],
        joint_pos=data["joint_pos"],
        source=str(data["source"]),
        source_sha256=str(data["source_sha256"]),
        licence=str(data["licence"]),
        history=tuple(map(str, data["history"])),
    )


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Returns all arrays of an npz file, without ever unpickling anything.

    Raises:
        MotionError: the file cannot be read, or holds Python objects.
    """
    try:
        with np.load(path, allow_pickle=False) as data:
            return {key: data[key] for key in data.files}
    except (OSError, ValueError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise MotionError(f"Cannot read {path} as npz: {error}.") from error


def file_sha256(path: Path) -> str:
    """Returns the hash of a file.

    Raises:
        MotionError: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise MotionError(f"Cannot read {path}: {error}.") from error


def _finite(name: str, key: str, values: Any) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise MotionError(f"Motion {name!r}: {key} must hold numbers, got {array.dtype}.")
    array = array.astype(np.float64)
    if array.ndim == 2 and not np.isfinite(array).all():
        frame, column = np.argwhere(~np.isfinite(array))[0]
        raise MotionError(f"Motion {name!r}: {key} holds {array[frame, column]} in frame {frame}, column {column}.")
    return array


def _key_problem(data: dict[str, NDArray[Any]]) -> str:
    missing = [key for key in _KEYS if key not in data]
    unknown = sorted(set(data) - set(_KEYS))
    if missing or unknown:
        return f"lacks: {', '.join(missing) or 'nothing'}; has what nobody knows: {', '.join(unknown) or 'nothing'}"
    return ""
