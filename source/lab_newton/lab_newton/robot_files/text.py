"""Numbers, frames and rotations for the text of a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lab_newton.robot_files.engine import mujoco

Pose = tuple[np.ndarray, np.ndarray]
"""Position (3,) [m] and orientation (4,), wxyz."""


def numbers(values: float | Iterable[float] | np.ndarray) -> str:
    """Returns numbers as text; 15 digits give back the decimals of a file, whatever was computed in between."""
    return " ".join(f"{value:.15g}" for value in np.atleast_1d(np.asarray(values, dtype=float)))


def matrix(quat: np.ndarray) -> np.ndarray:
    """Returns the rotation matrix (3, 3) of ``quat``, wxyz."""
    result = np.zeros(9)
    mujoco.mju_quat2Mat(result, quat)
    return result.reshape(3, 3)


def compose(first: Pose, second: Pose) -> Pose:
    """Returns the pose of ``second``, which is given in the frame of ``first``."""
    quat = np.zeros(4)
    mujoco.mju_mulQuat(quat, first[1], second[1])
    return first[0] + matrix(first[1]) @ second[0], quat
