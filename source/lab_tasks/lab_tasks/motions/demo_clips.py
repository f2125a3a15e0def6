"""Motions of the Unitree G1 that are made by rules, so they have no licence but ours: for tests and first trainings.

Each keeps the point that the ground pushes at inside of the feet, keeps joints inside of their soft limits, and is the
same to the last bit every time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lab_core.errors import unknown_name_message
from lab_tasks.motions.clip import Array, MotionClip, MotionError
from lab_tasks.motions.legs import BodyPlan, solve_legs
from lab_tasks.motions.mirror import mirror
from lab_tasks.motions.robot_model import RobotModel, g1_model
from lab_tasks.motions.stepping import Gait, follow_zmp, plan_steps, quintic

FPS = 50.0
_ROOT_HEIGHT = 0.7567  # of the default pose with level soles on the ground [m]
_FEET = np.array([[-0.0014, 0.1185, 0.035], [-0.0014, -0.1185, 0.035]])  # of the default pose [m]
_COM_AHEAD = 0.03  # of the centre of mass before the feet's origins, about the middle of the soles [m]
_COM_HEIGHT = 0.669  # of the default pose [m]
_PERIOD = 4.0  # of squatting and swaying [s]


def demo_clip(name: str, robot: RobotModel | None = None) -> MotionClip:
    """Returns one of :data:`DEMO_CLIPS`, at 50 frames per second.

    Raises:
        MotionError: there is none of this name.
    """
    if name not in DEMO_CLIPS:
        raise MotionError(unknown_name_message("demo motion", name, DEMO_CLIPS))
    base = name.removesuffix("_mirrored")
    clip = _RECIPES[base](robot or g1_model())
    return mirror(clip) if name != base else clip


def _clip(name: str, robot: RobotModel, plan: BodyPlan) -> MotionClip:
    root_pos, joint_pos = solve_legs(robot, plan)
    return MotionClip(
        name=name,
        fps=FPS,
        joint_names=robot.joint_names,
        root_pos=root_pos,
        root_quat=np.tile((0.0, 0.0, 0.0, 1.0), (len(root_pos), 1)),
        joint_pos=joint_pos,
        source=f"lab motion demo {name}",
        licence="Apache-2.0",
    )


def _plan(
    robot: RobotModel,
    frames: int,
    *,
    lower: float | Array = 0.0,
    sideways: float | Array = 0.0,
    joints: Mapping[str, Array] | None = None,
) -> BodyPlan:
    """Returns a plan with both feet on the ground, in the default pose but for what is given."""
    joint_pos = np.tile(robot.default_joint_pos, (frames, 1))
    for name, angles in (joints or {}).items():
        joint_pos[:, robot.joint_names.index(name)] = angles
    com = np.zeros((frames, 2))
    com[:, 0] = _FEET[0, 0] + _COM_AHEAD
    com[:, 1] = sideways
    return BodyPlan(
        feet=np.tile(_FEET, (frames, 1, 1)),
        root_height=np.broadcast_to(_ROOT_HEIGHT - np.asarray(lower), frames),
        com=com,
        joint_pos=joint_pos,
    )


def _times(duration: float) -> Array:
    return np.arange(round(duration * FPS) + 1) / FPS


def _stand(robot: RobotModel) -> MotionClip:
    return _clip("stand", robot, _plan(robot, len(_times(5.0))))


def _squat(robot: RobotModel) -> MotionClip:
    times = _times(2.0 * _PERIOD)
    return _clip("squat", robot, _plan(robot, len(times), lower=0.15 * _wave_down(times)))


def _deep_squat(robot: RobotModel) -> MotionClip:
    # deeper than 0.15 m the ankles end: the trunk leans forward, and the arms go with it
    times = _times(2.0 * _PERIOD)
    down = _wave_down(times)
    joints = {"waist_pitch_joint": 0.45 * down}
    joints |= {f"{side}_shoulder_pitch_joint": 0.2 - 1.6 * down for side in ("left", "right")}
    return _clip("deep_squat", robot, _plan(robot, len(times), lower=0.25 * down, joints=joints))


def _sway(robot: RobotModel) -> MotionClip:
    times = _times(2.0 * _PERIOD)
    sideways = 0.06 * np.sin(2.0 * np.pi * times / _PERIOD)
    return _clip("sway", robot, _plan(robot, len(times), lower=0.01, sideways=sideways))


def _wave(robot: RobotModel) -> MotionClip:
    times = _times(5.0)
    raised = quintic(times) * quintic(5.0 - times)
    joints = {
        "right_shoulder_pitch_joint": 0.2 - 1.1 * raised,
        "right_shoulder_roll_joint": -0.2 - 0.7 * raised,
        "right_elbow_joint": 0.6 + raised * (0.4 * np.sin(2.0 * np.pi * times) - 0.8),
    }
    return _clip("wave", robot, _plan(robot, len(times), joints=joints))


def _step_in_place(robot: RobotModel) -> MotionClip:
    return _stepping("step_in_place", robot, Gait(), lower=0.02)


def _slow_walk(robot: RobotModel) -> MotionClip:
    return _stepping("slow_walk", robot, Gait(double=0.2, length=0.1), lower=0.03)


def _stepping(name: str, robot: RobotModel, gait: Gait, lower: float) -> MotionClip:
    feet, zmp = plan_steps(gait, _FEET, FPS)
    plan = _plan(robot, len(feet), lower=lower)
    com = follow_zmp(zmp + (_COM_AHEAD, 0.0), _COM_HEIGHT - lower, FPS)
    return _clip(name, robot, BodyPlan(feet, plan.root_height, com, plan.joint_pos))


def _wave_down(times: Array) -> Array:
    return 0.5 - 0.5 * np.cos(2.0 * np.pi * times / _PERIOD)


_RECIPES: dict[str, Callable[[RobotModel], MotionClip]] = {
    "stand": _stand,
    "squat": _squat,
    "deep_squat": _deep_squat,
    "sway": _sway,
    "wave": _wave,
    "step_in_place": _step_in_place,
    "slow_walk": _slow_walk,
}
_SYMMETRIC = ("stand", "squat", "deep_squat")

DEMO_CLIPS: tuple[str, ...] = (*_RECIPES, *(f"{name}_mirrored" for name in _RECIPES if name not in _SYMMETRIC))
"""Names of all demo motions; those that are their own mirror image have no mirrored one."""
