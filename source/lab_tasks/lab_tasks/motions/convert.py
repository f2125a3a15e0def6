"""From another program's file to a clip that can be tracked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab_core.errors import unknown_name_message
from lab_tasks.motions.clip import Array, MotionClip, MotionError
from lab_tasks.motions.formats import FORMATS, read_motion
from lab_tasks.motions.quaternion_order import SOLE_HEIGHT, misread_quaternions
from lab_tasks.motions.robot_model import RobotModel
from lab_tasks.motions.splines import resample, velocities

_MAX_XY = 200.0  # [m]
_MAX_Z = 2.5  # [m]
_MAX_JOINT_SPEED = 45.0  # fast dances reach 33 [rad/s]
_LEAST_ANGLE = 0.06  # of a clip's largest joint angle [rad]
_MAX_BEYOND_LIMITS = 0.2  # retargeting leaves hundredths [rad]
_LEAST_W = 0.7  # of a robot that looks less than a quarter turn away from x, on average
_GROUND_PERCENTILE = 2.0


def convert_motion(
    path: Path,
    form: str,
    robot: RobotModel,
    *,
    input_fps: float | None = None,
    fps: float = 50.0,
    ground: bool = True,
    trust_quaternions: bool = False,
    licence: str = "",
) -> MotionClip:
    """Returns the motion in a file, resampled, put on the ground, and with its joints within their limits.

    Args:
        path: The file.
        form: Its format, one of :data:`~lab_tasks.motions.formats.FORMATS`.
        robot: Whose motion it is.
        input_fps: Frames per second in the file, where it does not say.
        fps: Of the clip.
        ground: Shift the whole clip so that the soles are below the ground in 2 % of all frames; never frame by frame.
        trust_quaternions: Take them in the order of the format, even if another one looks more likely.
        licence: Under which terms the motion may be used.

    Raises:
        MotionError: there is no such format, or the file cannot be of it, for a reason that is told: missing columns or
            keys, the number of joints, numbers that are not finite, quaternions of another length or order, units,
            joints of another order or robot.
    """
    if form not in FORMATS:
        raise MotionError(unknown_name_message("motion format", form, FORMATS))
    clip = read_motion(path, form, input_fps, robot).changed(f"read as {form}", licence=licence)
    refuse_implausible(clip, robot)
    if not trust_quaternions:
        _refuse_misread(clip, robot)
        if FORMATS[form].w_first:
            _refuse_backward(clip)
    clip = _within_limits(resample(clip, fps), robot)
    return _on_ground(clip, robot) if ground else clip


def refuse_implausible(clip: MotionClip, robot: RobotModel) -> None:
    """Checks that units, orders and rate can be what they were taken for.

    Raises:
        MotionError: they cannot.
    """
    what = f"Motion {clip.name!r}"
    xy, z = np.abs(clip.root_pos[:, :2]).max(), clip.root_pos[:, 2]
    if xy > _MAX_XY or z.min() < 0.0 or z.max() > _MAX_Z:
        raise MotionError(
            f"{what}: the root is up to {xy:.2f} m from the origin and {z.min():.2f} to {z.max():.2f} m high. Are "
            "these metres, and is z up?"
        )
    angles = np.abs(clip.joint_pos)
    if angles.max() > np.pi + 0.2:
        raise MotionError(f"{what}: a joint reaches {angles.max():.2f} rad. Are these radians?")
    if angles.max() < _LEAST_ANGLE:
        raise MotionError(f"{what}: no joint leaves zero by more than {angles.max():.3f} rad. Are these degrees?")
    speed = np.abs(velocities(clip).joint)
    if speed.max() > _MAX_JOINT_SPEED:
        frame, joint = np.unravel_index(speed.argmax(), speed.shape)
        raise MotionError(
            f"{what}: {clip.joint_names[joint]} moves at {speed.max():.1f} rad/s in frame {frame}. Is {clip.fps:g} its "
            "rate, and are all frames of one clip?"
        )
    excess = _beyond_limits(clip, robot)
    if excess.max() > _MAX_BEYOND_LIMITS:
        joint = int(excess.max(axis=0).argmax())
        raise MotionError(
            f"{what}: {clip.joint_names[joint]} is up to {excess.max():.3f} rad beyond its limits. Are its joints in "
            "another order, or of another robot?"
        )
    _refuse_height(clip, robot)


def _refuse_height(clip: MotionClip, robot: RobotModel) -> None:
    """Refuses clips in which no sole is near the ground: they lie or stand on their heads, or are of another unit."""
    height = float(np.median(robot.sole_corners(clip)[..., 2].min(axis=(1, 2))))
    if not SOLE_HEIGHT[0] < height < SOLE_HEIGHT[1]:
        raise MotionError(
            f"Motion {clip.name!r}: the lower sole is usually {height:.2f} m high. Quaternions may be of another order "
            "(xyzw or wxyz), or the root's height of another unit."
        )


def _refuse_misread(clip: MotionClip, robot: RobotModel) -> None:
    """Refuses clips that lean in the order of their format, and do not in another one."""
    mistake = misread_quaternions(clip, robot)
    if mistake:
        raise MotionError(
            f"Motion {clip.name!r}: quaternions look like {mistake}, for in the other order the soles are far more "
            "level. Is the format right? If it is, say so with --trust-quaternions."
        )


def _refuse_backward(clip: MotionClip) -> None:
    """Refuses clips that look backward: read as wxyz, xyzw of a robot that looks forward is one that looks backward.

    That one :func:`_refuse_misread` cannot see. Its counterpart, wxyz of a robot that looks backward read as xyzw,
    makes one that looks forward, which nothing in the file can tell.
    """
    w, z = (np.abs(clip.root_quat[:, axis]).mean() for axis in (3, 2))
    if w < _LEAST_W < z:
        raise MotionError(
            f"Motion {clip.name!r}: quaternions look like xyzw read as wxyz, for the robot looks backward. If it does, "
            "say so with --trust-quaternions."
        )


def _beyond_limits(clip: MotionClip, robot: RobotModel) -> Array:
    low, high = robot.limits
    return np.maximum(low - clip.joint_pos, clip.joint_pos - high)


def _within_limits(clip: MotionClip, robot: RobotModel) -> MotionClip:
    most = _beyond_limits(clip, robot).max(axis=0)
    if not (most > 0.0).any():
        return clip
    names = ", ".join(f"{clip.joint_names[joint]} by {most[joint]:.3f} rad" for joint in np.flatnonzero(most > 0.0))
    return clip.changed(f"clamped to the joints' limits: {names}", joint_pos=np.clip(clip.joint_pos, *robot.limits))


def _on_ground(clip: MotionClip, robot: RobotModel) -> MotionClip:
    lowest = robot.sole_corners(clip)[..., 2].min(axis=(1, 2))
    shift = -float(np.percentile(lowest, _GROUND_PERCENTILE))
    return clip.changed(f"raised by {1e3 * shift:.1f} mm", root_pos=clip.root_pos + (0.0, 0.0, shift))
