"""Plans for stepping: where the feet are, and where the centre of mass goes so that the robot does not tip over.

The robot is taken for a point mass at a fixed height h on massless legs (linear inverted pendulum). Then the point that
the ground pushes at is ``zmp = c - (h / g) c''``; it is prescribed, and the centre of mass c follows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_banded

from lab_tasks.motions.clip import Array

GRAVITY = 9.81
_LIFT_SHAPE = 64.0  # makes the highest point of s^3 (1 - s)^3 one


@dataclass(frozen=True, kw_only=True)
class Gait:
    """Steps of one kind, left foot first; the last one puts the feet beside each other again."""

    steps: int = 10
    single: float = 0.6
    """Time on one foot [s]."""
    double: float = 0.4
    """Time on both feet between two steps [s]."""
    rest: float = 0.8
    """Time on both feet before the first and after the last step [s]."""
    lift: float = 0.05
    """Height of the swinging foot [m]."""
    length: float = 0.0
    """How far before the standing foot the swinging one lands [m]."""


def plan_steps(gait: Gait, feet: Array, fps: float) -> tuple[Array, Array]:
    """Returns positions of both feet ``(T, 2, 3)``, and the point that the ground pushes at ``(T, 2)`` [m].

    The latter is below the origin of the standing foot while there is one. Between, it moves from foot to foot at
    constant speed, and it starts and ends in the middle.

    Args:
        gait: The steps.
        feet: Where the feet stand at first ``(2, 3)``, left and right [m].
        fps: Frames per second.
    """
    total = 2.0 * gait.rest + gait.steps * gait.single + (gait.steps - 1) * gait.double
    times = np.arange(round(total * fps) + 1) / fps
    path = np.repeat(feet[None], len(times), axis=0)
    now = feet.copy()
    knots, points = [0.0, gait.rest - gait.double], [now[:, :2].mean(axis=0)] * 2
    for step in range(gait.steps):
        start = gait.rest + step * (gait.single + gait.double)
        swing, stance = step % 2, 1 - step % 2
        ahead = gait.length if step < gait.steps - 1 else 0.0
        landing = np.array([now[stance, 0] + ahead, now[swing, 1], now[swing, 2]])
        phase = np.clip((times - start) / gait.single, 0.0, 1.0)
        moving = times > start
        path[moving, swing] = now[swing] + quintic(phase[moving])[:, None] * (landing - now[swing])
        path[:, swing, 2] += gait.lift * _LIFT_SHAPE * (phase * (1.0 - phase)) ** 3
        knots += [start, start + gait.single]
        points += [now[stance, :2].copy()] * 2
        now[swing] = landing
    knots += [knots[-1] + gait.double, total + 1.0]
    points += [now[:, :2].mean(axis=0)] * 2
    zmp = np.stack([np.interp(times, knots, [point[axis] for point in points]) for axis in range(2)], axis=1)
    return path, zmp


def follow_zmp(zmp: Array, height: float, fps: float) -> Array:
    """Returns the ground track of the centre of mass ``(T, 2)`` whose pendulum has the given ``zmp`` ``(T, 2)`` [m].

    It solves ``zmp = c - (h / g) c''`` at every frame for the cubic spline through the frames of ``c``, which is what
    velocities and accelerations of clips come from, and starts and ends at rest. The second derivatives ``m`` of that
    spline have ``(m[i - 1] + 4 m[i] + m[i + 1]) / 6 = (c[i - 1] - 2 c[i] + c[i + 1]) fps^2`` (de Boor, A Practical
    Guide to Splines, chapter IV). Found by central differences, it would push up to 7 mm beyond a turn of ``zmp``.

    Args:
        zmp: The point that the ground pushes at ``(T, 2)`` [m].
        height: Of the centre of mass above the ground [m].
        fps: Frames per second.
    """
    stiffness = height / GRAVITY * fps**2
    bands = np.zeros((3, len(zmp)))
    bands[0, 1:] = bands[2, :-1] = 1.0 / 6.0 - stiffness
    bands[1] = 2.0 / 3.0 + 2.0 * stiffness
    bands[1, [0, -1]] = 5.0 / 6.0 + stiffness  # a frame before the first is like it: no velocity there
    padded = np.pad(zmp, ((1, 1), (0, 0)), mode="edge")
    return solve_banded((1, 1), bands, (padded[:-2] + 4.0 * zmp + padded[2:]) / 6.0)


def quintic(phase: Array) -> Array:
    """Returns the smooth step from 0 to 1 over ``phase`` in [0, 1], without velocity or acceleration at its ends."""
    phase = np.clip(phase, 0.0, 1.0)
    return phase**3 * (10.0 + phase * (6.0 * phase - 15.0))
