"""Whether quaternions were read in the wrong order, which poses can tell though each of them is a unit quaternion."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from lab_tasks.motions.clip import Array, MotionClip
from lab_tasks.motions.robot_model import RobotModel

_LEAST_GAIN = 0.1
"""Soles that are level on average by so much more in another order show a mistake [rad]."""
_MOST_LEFT = 0.5
"""Share of the tilt that the other order may leave."""
SOLE_HEIGHT = (-0.15, 0.30)
"""Of the lower sole of a robot on its feet, over half of the time, before a clip is put on the ground [m]."""
_MISREAD = {"wxyz read as xyzw": [1, 2, 3, 0], "xyzw read as wxyz": [3, 0, 1, 2]}
"""Mistake -> which of the components that were read are x, y, z and w."""


def misread_quaternions(clip: MotionClip, robot: RobotModel) -> str | None:
    """Returns which mistake in the order of quaternions explains the clip better than none, such as ``"wxyz read as
    xyzw"``; None where none does.

    A wrong order turns headings into tilts: the robot leans, lies or stands on its head, at the height of a root that
    does not. The lower sole tells: of a robot that moves on its feet it is level most of the time, in the right order
    alone, and near the ground. Upright in both, so that nothing here can tell, are robots that look along -x all the
    time (wxyz read as xyzw, which then look along x) or along x (the other way round).
    """
    tilt, _ = _lower_sole(clip, robot, clip.root_quat)
    fits = {mistake: _lower_sole(clip, robot, clip.root_quat[:, order]) for mistake, order in _MISREAD.items()}
    best = min(fits, key=lambda mistake: fits[mistake][0])
    left, height = fits[best]
    explains = left < min(_MOST_LEFT * tilt, tilt - _LEAST_GAIN) and SOLE_HEIGHT[0] < height < SOLE_HEIGHT[1]
    return best if explains else None


def _lower_sole(clip: MotionClip, robot: RobotModel, root_quat: Array) -> tuple[float, float]:
    """Returns the mean angle between the lower sole and the ground [rad], and the median height of its lowest corner
    [m], if the root were turned by ``root_quat`` (T, 4)."""
    root = clip.root_pos[:, None, None]
    turn = (Rotation.from_quat(root_quat) * Rotation.from_quat(clip.root_quat).inv()).as_matrix()
    corners = np.einsum("tij,tfcj->tfci", turn, robot.sole_corners(clip) - root) + root
    lower = corners[..., 2].min(axis=2).argmin(axis=1)
    sole = corners[np.arange(len(clip)), lower]
    normal = np.cross(sole[:, 1] - sole[:, 0], sole[:, 3] - sole[:, 0])
    upward = normal[:, 2] / np.linalg.norm(normal, axis=1)
    tilt = np.arccos(np.clip(upward, -1.0, 1.0)).mean()
    return float(tilt), float(np.median(sole[..., 2].min(axis=1)))
