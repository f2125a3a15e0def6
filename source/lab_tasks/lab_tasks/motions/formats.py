"""Readers of other programs' motion files. Each takes what it is told the file is, and refuses what that cannot be.

The number of columns never says which format a file has (three have 36), so nobody guesses it here.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from lab_tasks.motions.clip import Array, MotionClip, MotionError, file_sha256, read_npz
from lab_tasks.motions.plain_pickle import load_plain_pickle
from lab_tasks.motions.robot_model import RobotModel

_WXYZ_TO_XYZW = [1, 2, 3, 0]
_NPZ_KEYS = ("fps", "joint_pos", "body_pos_w", "body_quat_w")
_PICKLE_KEYS = ("fps", "root_pos", "root_rot", "dof_pos")
_BODY_TOLERANCE = 0.02  # between bodies in the file and those of our model [m]


@dataclass(frozen=True)
class MotionFormat:
    """A file format of others."""

    what: str
    """Whose, and how it is told from others."""
    read: Callable[[Path, float | None, RobotModel], MotionClip]
    """From file, rate (None: the file's, or the format's) and robot to the clip as it is in the file."""
    w_first: bool = False
    """Whether its quaternions are wxyz, with nothing in the file to prove it."""


def read_motion(path: Path, form: str, fps: float | None, robot: RobotModel) -> MotionClip:
    """Returns what is in a file of another program, at its own rate.

    Args:
        path: The file.
        form: One of :data:`FORMATS`.
        fps: Rate of the file, for formats that do not say it.
        robot: Whose motion it is.

    Raises:
        MotionError: the file cannot be read, or cannot be of this format and robot.
    """
    return FORMATS[form].read(path, fps, robot)


def _clip(path: Path, robot: RobotModel, fps: float, pos: Any, quat: Any, joints: Any, names: Any = None) -> MotionClip:
    return MotionClip(
        name=path.stem,
        fps=fps,
        joint_names=tuple(robot.joint_names if names is None else names),
        root_pos=pos,
        root_quat=quat,
        joint_pos=joints,
        source=path.name,
        source_sha256=file_sha256(path),
    )


def _read_lafan1(path: Path, fps: float | None, robot: RobotModel) -> MotionClip:
    table = _bare_table(path, robot)
    return _clip(path, robot, _told(path, fps), table[:, :3], table[:, 3:7], table[:, 7:])


def _read_kimodo(path: Path, fps: float | None, robot: RobotModel) -> MotionClip:
    table = _bare_table(path, robot)
    return _clip(path, robot, _told(path, fps), table[:, :3], table[:, 3:7][:, _WXYZ_TO_XYZW], table[:, 7:])


def _read_seed(path: Path, fps: float | None, robot: RobotModel) -> MotionClip:
    header, table = _table(path)
    if not header:
        raise MotionError(f"{path} has no header, so it is no BONES-SEED file.")
    columns = {name: table[:, index] for index, name in enumerate(header)}
    root = [f"root_{what}{axis}" for what in ("translate", "rotate") for axis in "XYZ"]
    joints = {name: name.removesuffix("_dof") for name in header if name not in ("Frame", *root)}
    if missing := [name for name in root if name not in columns]:
        raise MotionError(f"{path} lacks the columns {', '.join(missing)}; it has {', '.join(header)}.")
    pos, angles = (np.stack([columns[name] for name in part], axis=1) for part in (root[:3], root[3:]))
    values = np.stack([columns[name] for name in joints], axis=1) if joints else np.zeros((len(table), 0))
    quat = Rotation.from_euler("xyz", angles, degrees=True).as_quat()  # small letters: about the fixed axes
    clip = _clip(path, robot, 120.0 if fps is None else fps, pos / 100.0, quat, np.deg2rad(values), joints.values())
    return clip.with_joints(robot.joint_names)


def _read_beyondmimic(path: Path, fps: float | None, robot: RobotModel) -> MotionClip:
    return _read_npz_bodies(path, fps, robot, robot.breadth_first)


def _read_mjlab(path: Path, fps: float | None, robot: RobotModel) -> MotionClip:
    return _read_npz_bodies(path, fps, robot, list(range(robot.model.nbody - 1)))


def _read_npz_bodies(path: Path, fps: float | None, robot: RobotModel, order: list[int]) -> MotionClip:
    """Reads joints and bodies without names, whose order is checked by where the bodies are.

    ``order`` has our number of each link, the root first; joint i moves link i + 1.
    """
    data = read_npz(path)
    _need(path, data, _NPZ_KEYS)
    joints, bodies, quat = data["joint_pos"], data["body_pos_w"], data["body_quat_w"]
    if joints.ndim != 2 or joints.shape[1] != len(robot.joint_names):
        raise MotionError(f"{path}: joint_pos has the shape {joints.shape}, not (T, {len(robot.joint_names)}).")
    expected = (len(joints), len(order))
    if bodies.shape != (*expected, 3) or quat.shape != (*expected, 4):
        raise MotionError(
            f"{path}: body_pos_w and body_quat_w must have the shapes {(*expected, 3)} and {(*expected, 4)}, got "
            f"{bodies.shape} and {quat.shape}."
        )
    names = [robot.joint_names[link - 1] for link in order[1:]]
    clip = _clip(
        path, robot, _same_rate(path, data["fps"], fps), bodies[:, 0], quat[:, 0][:, _WXYZ_TO_XYZW], joints, names
    )
    clip = clip.with_joints(robot.joint_names)
    apart = np.linalg.norm(robot.body_positions(clip)[:, order] - bodies, axis=-1).max()
    if not apart < _BODY_TOLERANCE:
        raise MotionError(
            f"{path}: bodies are up to {apart:.3f} m from where its joints put them. Joints or bodies are in another "
            "order (BeyondMimic: breadth first; mjlab: depth first), quaternions are not wxyz, or the robot is another."
        )
    return clip


def _read_gmr(path: Path, fps: float | None, robot: RobotModel) -> MotionClip:
    data = load_plain_pickle(path)
    if not isinstance(data, dict):
        raise MotionError(f"{path} must hold a dictionary, got {type(data).__name__}.")
    _need(path, data, _PICKLE_KEYS)
    return _clip(path, robot, _same_rate(path, data["fps"], fps), data["root_pos"], data["root_rot"], data["dof_pos"])


FORMATS: dict[str, MotionFormat] = {
    "lafan1_csv": MotionFormat("retargeted LAFAN1, no header, quaternions xyzw; tell its rate", _read_lafan1),
    "kimodo_csv": MotionFormat("Kimodo, ARDY, no header, quaternions wxyz; tell its rate", _read_kimodo, w_first=True),
    "seed_csv": MotionFormat("BONES-SEED, with header, cm and degrees, 120 Hz unless told", _read_seed),
    "beyondmimic_npz": MotionFormat("BeyondMimic, joints and bodies breadth first", _read_beyondmimic),
    "mjlab_npz": MotionFormat("mjlab, joints and bodies depth first", _read_mjlab),
    "gmr_pkl": MotionFormat("GMR, a pickle of plain data and arrays", _read_gmr),
}
"""Formats that can be read, by name."""


def _bare_table(path: Path, robot: RobotModel) -> Array:
    header, table = _table(path)
    if header:
        raise MotionError(f"{path} has a header ({', '.join(header[:4])}, ...), which this format has not.")
    if (joints := table.shape[1] - 7) != len(robot.joint_names):
        raise MotionError(
            f"{path} has {table.shape[1]} columns, which leaves {joints} joints; the robot has "
            f"{len(robot.joint_names)}. Joints that a file lacks are never filled in."
        )
    return table


def _table(path: Path) -> tuple[list[str], Array]:
    """Returns the header, empty without one, and the numbers of a CSV file."""
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MotionError(f"Cannot read {path} as CSV: {error}.") from error
    if not rows:
        raise MotionError(f"{path} is empty.")
    header = [] if _is_number(rows[0][0]) else [name.strip() for name in rows.pop(0)]
    width = len(header) or len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != width:
            raise MotionError(f"{path}: frame {number} has {len(row)} columns, others have {width}.")
    try:
        return header, np.array(rows, dtype=np.float64).reshape(len(rows), width)
    except ValueError as error:
        raise MotionError(f"{path} holds what is no number: {error}.") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _need(path: Path, data: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    if missing := [key for key in keys if key not in data]:
        raise MotionError(f"{path} lacks {', '.join(missing)}; it has {', '.join(sorted(map(str, data)))}.")


def _told(path: Path, fps: float | None) -> float:
    if fps is None:
        raise MotionError(f"{path} does not say how many frames per second it has; tell it with --input-fps.")
    return fps


def _same_rate(path: Path, stored: Any, told: float | None) -> float:
    try:
        fps = float(np.asarray(stored, dtype=np.float64).reshape(()) if np.size(stored) == 1 else "several")
    except (TypeError, ValueError):
        raise MotionError(f"{path}: fps must be one number, got {stored!r}.") from None
    if told is not None and not np.isclose(told, fps):
        raise MotionError(f"{path} has {fps:g} frames per second, but {told:g} were told.")
    return fps
