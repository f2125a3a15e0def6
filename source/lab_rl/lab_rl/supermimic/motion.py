"""What a model of a robot's motion is shown, what it predicts, and how predictions move the robot."""

from __future__ import annotations

import torch
from torch import Tensor

from lab_core.math import quat_apply, quat_apply_inverse, quat_box_plus
from lab_rl.supermimic.state import RobotState


class RobotMotion:
    """Features and increments of a robot, invariant to where it stands and where it heads, and the rule by which
    increments of velocities over an environment step become the next state.

    The state at the end of a step of n physics steps, each by the semi-implicit Euler rule with a force that is
    constant over the step, lies at p' = p + dt ((1 - a) v + a v') with a = (n + 1) / (2 n): the mean of the velocities
    behind each of them.

    Args:
        num_joints: J.
        floating: Whether the root moves.
        step_dt: Duration of an environment step [s].
        substeps: n.
        gravity: Its direction in the world, a unit vector (3,).
    """

    def __init__(self, num_joints: int, floating: bool, step_dt: float, substeps: int, gravity: Tensor) -> None:
        self.num_joints = num_joints
        self.floating = floating
        self.step_dt = step_dt
        self.blend = (substeps + 1) / (2 * substeps)
        """a."""
        self._gravity = gravity

    @property
    def num_features(self) -> int:
        """Numbers that describe a state."""
        return (10 if self.floating else 0) + 2 * self.num_joints

    @property
    def num_increments(self) -> int:
        """V, velocities of a state."""
        return (6 if self.floating else 0) + self.num_joints

    def features(self, state: RobotState) -> Tensor:
        """Returns (..., num_features): height, direction of gravity and velocities in the root frame; joint positions,
        joint velocities."""
        joints = [state.joint_pos, state.joint_vel]
        if not self.floating:
            return torch.cat(joints, dim=-1)
        return torch.cat([state.pos[..., 2:3], self._root_features(state), *joints], dim=-1)

    def velocity(self, state: RobotState) -> Tensor:
        """Returns velocities (..., V): linear and angular of the root in its frame, joints."""
        if not self.floating:
            return state.joint_vel
        return torch.cat([self._root_features(state)[..., 3:], state.joint_vel], dim=-1)

    def pose(self, state: RobotState) -> Tensor:
        """Returns what is seen of the pose (..., 4 + J): height, direction of gravity in the root frame, joints; of a
        robot that the world holds (..., J)."""
        if not self.floating:
            return state.joint_pos
        return torch.cat([state.pos[..., 2:3], self._root_features(state)[..., :3], state.joint_pos], dim=-1)

    def increments(self, state: RobotState, following: RobotState) -> Tensor:
        """Returns the change of velocities (..., V) from a state to the following one; that of the root in the root
        frame of the first, where no fictitious forces appear."""
        joints = following.joint_vel - state.joint_vel
        if not self.floating:
            return joints
        change = torch.stack((following.lin_vel - state.lin_vel, following.ang_vel - state.ang_vel), dim=-2)
        root = quat_apply_inverse(state.quat.unsqueeze(-2), change)
        return torch.cat([root.flatten(-2), joints], dim=-1)

    def advance(self, state: RobotState, increments: Tensor) -> RobotState:
        """Returns the state at the end of a step over which velocities change by ``increments`` (..., V)."""
        joint_vel = state.joint_vel + increments[..., -self.num_joints :]
        joint_pos = state.joint_pos + self._moved(state.joint_vel, joint_vel)
        if not self.floating:
            return RobotState(state.pos, state.quat, state.lin_vel, state.ang_vel, joint_pos, joint_vel)
        change = quat_apply(state.quat.unsqueeze(-2), increments[..., :6].unflatten(-1, (2, 3)))
        lin_vel, ang_vel = state.lin_vel + change[..., 0, :], state.ang_vel + change[..., 1, :]
        pos = state.pos + self._moved(state.lin_vel, lin_vel)
        quat = quat_box_plus(state.quat, self._moved(state.ang_vel, ang_vel))
        return RobotState(pos, quat, lin_vel, ang_vel, joint_pos, joint_vel)

    def _moved(self, before: Tensor, after: Tensor) -> Tensor:
        return self.step_dt * ((1.0 - self.blend) * before + self.blend * after)

    def _root_features(self, state: RobotState) -> Tensor:
        """(..., 9) gravity, linear and angular velocity in the root frame, in one rotation."""
        gravity = self._gravity.to(state.quat.dtype).expand_as(state.lin_vel)
        seen = torch.stack((gravity, state.lin_vel, state.ang_vel), dim=-2)
        return quat_apply_inverse(state.quat.unsqueeze(-2), seen).flatten(-2)
