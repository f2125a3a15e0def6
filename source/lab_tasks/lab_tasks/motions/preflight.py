"""What a clip asks of a robot, measured before anybody trains on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab_tasks.motions.balance import support_margins
from lab_tasks.motions.clip import Array, MotionClip
from lab_tasks.motions.quaternion_order import misread_quaternions
from lab_tasks.motions.robot_model import RobotModel
from lab_tasks.motions.self_contact import deepest_self_contact
from lab_tasks.motions.splines import accelerations, velocities

MAX_JOINT_SPEED = 45.0
"""Fast dances reach 33 [rad/s]."""
MAX_JOINT_ACCELERATION = 2000.0
"""[rad/s^2]"""
MAX_ROOT_SPEED = 8.0
"""A sprint; a jump between frames is far more [m/s]."""
MAX_ROOT_TURN = 20.0
"""[rad/s]"""
MAX_PENETRATION = 0.03
"""Of a sole into the ground [m]."""
MAX_SELF_PENETRATION = 0.03
"""Of bodies into each other; retargeted hands reach 16 mm into hips [m]."""
MAX_FLOAT = 0.05
"""Height of the lower sole that a clip must get below at some time [m]."""
MIN_DURATION = 1.0
"""[s]"""
_TOUCH = 1e-9  # rounding when angles are clamped to a limit [rad]


@dataclass(frozen=True)
class Finding:
    """One measure of a clip."""

    what: str
    """What was measured, with its unit."""
    value: str
    """What it was, and where."""
    problem: bool = False
    """Whether a robot cannot do this, or the clip is broken."""
    warning: bool = False
    """Whether it is worth a look."""


def preflight(clip: MotionClip, robot: RobotModel) -> list[Finding]:
    """Measures a clip: duration, limits and rates of joints, jumps of the root, order of quaternions, soles and
    ground, self-contact, balance.

    A policy need not follow exactly. So bodies may graze each other, up to :data:`MAX_SELF_PENETRATION`, and balance is
    a warning at most: it takes the robot to touch the ground only with its soles, and fast motions may leave it for a
    moment.

    Raises:
        MotionError: the clip is of another robot.
    """
    clip = clip.with_joints(robot.joint_names)
    rates, changes = velocities(clip), accelerations(clip)
    return [
        Finding("duration [s]", f"{clip.duration:.2f}, {len(clip)} frames", clip.duration < MIN_DURATION),
        *_limits(clip, robot),
        _joint_peak("joint speed [rad/s]", clip, rates.joint, MAX_JOINT_SPEED),
        _joint_peak("joint acceleration [rad/s^2]", clip, changes.joint, MAX_JOINT_ACCELERATION),
        _peak("root speed [m/s]", np.linalg.norm(rates.root_lin, axis=1), MAX_ROOT_SPEED),
        _peak("root angular speed [rad/s]", np.linalg.norm(rates.root_ang, axis=1), MAX_ROOT_TURN),
        _quaternions(clip, robot),
        *_soles(robot.sole_corners(clip)[..., 2].min(axis=(1, 2))),
        _self_contact(clip, robot),
        _balance(clip, robot),
    ]


def _limits(clip: MotionClip, robot: RobotModel) -> list[Finding]:
    findings = []
    for what, (low, high) in (("limit", robot.limits), ("soft limit", robot.soft_limits)):
        beyond = np.maximum(low - clip.joint_pos, clip.joint_pos - high)
        outside = bool(beyond.max() > _TOUCH)
        value = f"{beyond.max():.3f} {_where(clip, beyond)}" if outside else "none"
        hard = what == "limit"
        findings.append(Finding(f"beyond a joint's {what} [rad]", value, outside and hard, outside and not hard))
    return findings


def _joint_peak(what: str, clip: MotionClip, values: Array, most: float) -> Finding:
    size = np.abs(values)
    return Finding(f"highest {what}", f"{size.max():.2f} {_where(clip, size)}", bool(size.max() > most))


def _peak(what: str, values: Array, most: float) -> Finding:
    return Finding(f"highest {what}", f"{values.max():.2f} in frame {values.argmax()}", bool(values.max() > most))


def _quaternions(clip: MotionClip, robot: RobotModel) -> Finding:
    mistake = misread_quaternions(clip, robot)
    return Finding("order of quaternions", f"looks like {mistake}" if mistake else "plausible", problem=bool(mistake))


def _self_contact(clip: MotionClip, robot: RobotModel) -> Finding:
    deepest = deepest_self_contact(clip, robot)
    what = "bodies inside each other [mm]"
    if deepest is None:
        return Finding(what, "none")
    value = f"{1e3 * deepest.depth:.1f} ({' and '.join(deepest.bodies)}, frame {deepest.frame})"
    too_deep = deepest.depth > MAX_SELF_PENETRATION
    return Finding(what, value, problem=too_deep, warning=not too_deep)


def _soles(lowest: Array) -> list[Finding]:
    depth = max(0.0, -float(lowest.min()))
    return [
        Finding("lower sole, 2nd, 50th, 98th percentile [mm]", _percentiles(lowest), bool(lowest.min() > MAX_FLOAT)),
        Finding("sole below the ground [mm]", f"{1e3 * depth:.1f} in frame {lowest.argmin()}", depth > MAX_PENETRATION),
    ]


def _percentiles(lowest: Array) -> str:
    return ", ".join(f"{1e3 * value:.1f}" for value in np.percentile(lowest, (2.0, 50.0, 98.0)))


def _balance(clip: MotionClip, robot: RobotModel) -> Finding:
    margins = support_margins(clip, robot)
    known = margins[np.isfinite(margins)]
    if not len(known):
        return Finding("centre of pressure within the soles", "no sole rests on the ground", warning=True)
    inside = float(np.mean(known >= 0.0))
    value = f"{100.0 * inside:.1f} % of {len(known)} frames with support, margin {1e3 * known.min():.0f} mm or more"
    return Finding("centre of pressure within the soles", value, warning=inside < 1.0)


def _where(clip: MotionClip, values: Array) -> str:
    frame, joint = np.unravel_index(values.argmax(), values.shape)
    return f"({clip.joint_names[joint]}, frame {frame})"
