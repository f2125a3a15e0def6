"""From foot poses and a ground track of the centre of mass to joint angles, frame by frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mujoco import MjData, MjModel, mj_fwdPosition, mj_jacBody, mju_quat2Vel  # pyright: ignore[reportAttributeAccessIssue]
from numpy.typing import NDArray

from lab_tasks.motions.clip import Array, MotionError
from lab_tasks.motions.robot_model import RobotModel

_TOLERANCE = 1e-9
_MAX_ITERATIONS = 60
_DAMPING = 1e-6
_MAX_STEP = 0.2  # per iteration [rad]


@dataclass(frozen=True)
class BodyPlan:
    """What a robot with an upright root is to do, in ``T`` frames. The soles stay level, toes forward."""

    feet: Array
    """Origins of the left and the right foot ``(T, 2, 3)`` in the world [m]."""
    root_height: Array
    """``(T,)`` [m]."""
    com: Array
    """Ground track of the centre of mass ``(T, 2)`` in the world [m]."""
    joint_pos: Array
    """Angles of all joints ``(T, J)`` [rad]; those of the legs say where the search begins in the first frame."""


def solve_legs(robot: RobotModel, plan: BodyPlan) -> tuple[Array, Array]:
    """Returns root positions ``(T, 3)`` [m] and joint angles ``(T, J)`` [rad] that do what ``plan`` says.

    The legs are found by damped least squares. Between its iterations the root moves sideways until the centre of mass
    is above its track.

    Raises:
        MotionError: a frame cannot be reached.
    """
    solver = _LegSolver(robot)
    root_pos, joint_pos = [], []
    for frame in range(len(plan.feet)):
        pos, angles = solver.solve(frame, plan)
        root_pos.append(pos)
        joint_pos.append(angles)
    return np.stack(root_pos), np.stack(joint_pos)


class _LegSolver:
    """Keeps the last solution, where the next search begins."""

    def __init__(self, robot: RobotModel) -> None:
        self.model = robot.model
        self.data = MjData(robot.model)
        self.data.qpos[:7] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
        self.feet = [robot.model.body(foot).id for foot in robot.feet]
        self.dofs = [_dofs_of(robot.model, foot) for foot in self.feet]
        self.started = False

    def solve(self, frame: int, plan: BodyPlan) -> tuple[Array, Array]:
        self._begin(frame, plan)
        residual = np.inf
        for _ in range(_MAX_ITERATIONS):
            mj_fwdPosition(self.model, self.data)
            residual = self._step_root(plan.com[frame])
            for foot, dofs, target in zip(self.feet, self.dofs, plan.feet[frame], strict=True):
                residual = max(residual, self._step_leg(foot, dofs, target))
            if residual < _TOLERANCE:
                return self.data.qpos[:3].copy(), self.data.qpos[7:].copy()
        raise MotionError(f"The legs cannot reach what is asked for in frame {frame}: {residual:.1e} m are left.")

    def _begin(self, frame: int, plan: BodyPlan) -> None:
        legs = self.data.qpos[7:].copy()
        self.data.qpos[7:] = plan.joint_pos[frame]
        if self.started:
            for dofs in self.dofs:
                self.data.qpos[dofs + 1] = legs[dofs - 6]
        else:
            self.data.qpos[:2] = plan.com[frame]
        self.data.qpos[2] = plan.root_height[frame]
        self.started = True

    def _step_root(self, com: Array) -> float:
        # subtree_com of body 0, the world, is the whole robot's
        error = com - self.data.subtree_com[0, :2]
        self.data.qpos[:2] += error
        self.data.xpos[:, :2] += error
        return float(np.abs(error).max())

    def _step_leg(self, foot: int, dofs: NDArray[np.int64], target: Array) -> float:
        jacobian = np.zeros((6, self.model.nv))
        mj_jacBody(self.model, self.data, jacobian[:3], jacobian[3:], foot)
        jacobian = jacobian[:, dofs]
        rotation = np.zeros(3)
        mju_quat2Vel(rotation, self.data.xquat[foot] * (1.0, -1.0, -1.0, -1.0), 1.0)
        error = np.concatenate((target - self.data.xpos[foot], rotation))
        step = np.linalg.solve(jacobian.T @ jacobian + _DAMPING * np.eye(len(dofs)), jacobian.T @ error)
        self.data.qpos[dofs + 1] += np.clip(step, -_MAX_STEP, _MAX_STEP)
        return float(np.abs(error).max())


def _dofs_of(model: MjModel, foot: int) -> NDArray[np.int64]:
    """Returns the degrees of freedom between the root and a foot; a hinge's coordinate is one further."""
    dofs: list[int] = []
    body = foot
    while body > 1:
        dofs += range(model.body_dofadr[body], model.body_dofadr[body] + model.body_dofnum[body])
        body = model.body_parentid[body]
    return np.array(sorted(dofs))
