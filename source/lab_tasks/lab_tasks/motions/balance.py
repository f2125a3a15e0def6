"""Whether the ground can push a robot as its motion needs: the centre of pressure against the soles."""

from __future__ import annotations

import numpy as np
from mujoco import MjData, mj_inverse, mjtDisableBit  # pyright: ignore[reportAttributeAccessIssue]
from scipy.spatial import ConvexHull, QhullError
from scipy.spatial.transform import Rotation

from lab_tasks.motions.clip import Array, MotionClip
from lab_tasks.motions.robot_model import RobotModel
from lab_tasks.motions.splines import accelerations, velocities

CONTACT_HEIGHT = 0.005
"""Corners of soles up to here carry [m]."""


def support_margins(clip: MotionClip, robot: RobotModel) -> Array:
    """Returns how far the centre of pressure is inside of what the soles span ``(T,)`` [m], negative outside.

    NaN where no sole rests on the ground, or the ground would have to pull.
    """
    clip = clip.with_joints(robot.joint_names)
    corners = robot.sole_corners(clip)
    margins = np.full(len(clip), np.nan)
    for frame, point in enumerate(centres_of_pressure(clip, robot)):
        carrying = corners[frame].reshape(-1, 3)
        carrying = carrying[carrying[:, 2] < CONTACT_HEIGHT, :2]
        if len(carrying) > 2 and np.isfinite(point).all():
            margins[frame] = _inside(point, carrying)
    return margins


def centres_of_pressure(clip: MotionClip, robot: RobotModel) -> Array:
    """Returns where on level ground at height 0 a single force would have to push ``(T, 2)`` [m].

    It follows from the force and moment on the root that the equations of motion ask for (inverse dynamics), with no
    other contact than the ground. NaN where that would have to pull.
    """
    rates, changes = velocities(clip), accelerations(clip)
    qpos = robot.qpos(clip)
    to_body = Rotation.from_quat(clip.root_quat).inv()  # MuJoCo has angular velocities of a free root in its frame
    qvel = np.concatenate((rates.root_lin, to_body.apply(rates.root_ang), rates.joint), axis=1)
    qacc = np.concatenate((changes.root_lin, to_body.apply(changes.root_ang), changes.joint), axis=1)
    points = np.full((len(clip), 2), np.nan)
    data = MjData(robot.model)
    flags = robot.model.opt.disableflags
    robot.model.opt.disableflags = flags | int(mjtDisableBit.mjDSBL_CONSTRAINT)
    try:
        for frame in range(len(clip)):
            data.qpos[:], data.qvel[:], data.qacc[:] = qpos[frame], qvel[frame], qacc[frame]
            mj_inverse(robot.model, data)
            points[frame] = _pressure_point(data.qfrc_inverse[:6], clip.root_pos[frame], to_body[frame])
    finally:
        robot.model.opt.disableflags = flags
    return points


def _pressure_point(wrench: Array, root: Array, to_body: Rotation) -> Array:
    force = wrench[:3]
    if force[2] <= 0.0:
        return np.full(2, np.nan)
    moment = to_body.inv().apply(wrench[3:]) + np.cross(root, force)  # about the world's origin
    return np.array((-moment[1], moment[0])) / force[2]


def _inside(point: Array, corners: Array) -> float:
    """Returns the distance of a point to the edge of the hull of ``corners`` [m], negative outside of their lines."""
    try:
        edges = ConvexHull(corners).equations  # outward normal and offset: negative inside
    except QhullError:
        return np.nan  # all in one line
    return float(-(edges[:, :2] @ point + edges[:, 2]).max())
