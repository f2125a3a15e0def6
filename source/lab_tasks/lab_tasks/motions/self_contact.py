"""Whether a clip asks a robot to reach into itself."""

from __future__ import annotations

from dataclasses import dataclass

from mujoco import MjData, mj_collision, mj_comPos, mj_kinematics  # pyright: ignore[reportAttributeAccessIssue]

from lab_tasks.motions.clip import MotionClip
from lab_tasks.motions.robot_model import RobotModel


@dataclass(frozen=True)
class SelfContact:
    """Two bodies of a robot that are inside each other."""

    bodies: tuple[str, str]
    frame: int
    depth: float
    """How far [m]."""


def deepest_self_contact(clip: MotionClip, robot: RobotModel) -> SelfContact | None:
    """Returns where the robot reaches deepest into itself; None where its bodies keep apart.

    Shapes and pairs are those that may touch in the physics: not a body and its parent, nor pairs that the model file
    excludes.
    """
    model, data = robot.model, MjData(robot.model)
    deepest: SelfContact | None = None
    for frame, qpos in enumerate(robot.qpos(clip)):
        data.qpos[:] = qpos
        mj_kinematics(model, data)
        mj_comPos(model, data)
        mj_collision(model, data)
        for geoms, distance in zip(data.contact.geom, data.contact.dist, strict=True):
            one, two = sorted(model.geom_bodyid[geoms].tolist())
            if one > 0 and -distance > (deepest.depth if deepest else 0.0):
                deepest = SelfContact((model.body(one).name, model.body(two).name), frame, -float(distance))
    return deepest
