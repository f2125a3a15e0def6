"""From a robot's state to what a network sees, and from what it says back to a state."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lab_core.math import (
    normalize,
    quat_apply,
    quat_apply_inverse,
    quat_box_plus,
    quat_conjugate,
    quat_log,
    quat_mul,
    wrap_to_pi,
)
from lab_newton.nerd.layout import RobotLayout


class StateParts(NamedTuple):
    """What features hold of a state."""

    joint_pos: Tensor
    """(..., J) [rad or m]."""
    joint_vel: Tensor
    """(..., J) [rad/s or m/s]."""
    root_vel: Tensor
    """(..., 6) of a floating root's centre of mass [m/s], and angular [rad/s], in its frame; else (..., 0)."""
    down: Tensor
    """(..., 3) direction of gravity in the frame of a floating root, else of the world."""
    effort: Tensor
    """(..., J) of all joints [N or N m]."""


class Representation(nn.Module):
    """Features, targets and the rule that moves poses, for any leading shape; differentiable.

    What a network sees depends neither on where the robot is nor on its yaw. Of a floating root it sees velocities and
    the direction of gravity in the root's frame; of continuous hinges sine and cosine. It predicts changes of velocity
    over a step, those of the root in the root's frame at the beginning of the step.

    Shapes are those of :class:`RobotLayout`: ``q`` (..., Q), ``qd`` (..., V), ``effort`` (..., J), of all joints, of
    which the actuated ones are seen.
    """

    gravity: Tensor
    _com: Tensor
    _continuous: Tensor
    _limited: Tensor
    _actuated: Tensor
    _wraps: Tensor

    def __init__(self, layout: RobotLayout) -> None:
        super().__init__()
        self.layout = layout
        names, turns = layout.joint_names, layout.continuous
        continuous = [joint for joint, turn in enumerate(turns) if turn]
        limited = [joint for joint, turn in enumerate(turns) if not turn]
        actuated = [names.index(name) for name in layout.actuated]
        down = torch.tensor(layout.gravity)
        for name, value in {
            "gravity": normalize(down),
            "_com": torch.tensor(layout.root_com),
            "_continuous": torch.tensor(continuous, dtype=torch.int64),
            "_limited": torch.tensor(limited, dtype=torch.int64),
            "_actuated": torch.tensor(actuated, dtype=torch.int64),
            "_wraps": torch.tensor(turns, dtype=torch.bool),
        }.items():
            self.register_buffer(name, value, persistent=False)
        self._floating = layout.floating
        self._root_q, self._root_qd = 7 * layout.floating, 6 * layout.floating
        first = int(layout.floating)  # token of the first joint
        root = [(f"root {what} {axis}", 0) for what in ("velocity", "spin", "gravity") for axis in "xyz"]
        features = [
            (f"{function} {names[joint]}", first + joint) for function in ("sin", "cos") for joint in continuous
        ]
        features += [(f"position {names[joint]}", first + joint) for joint in limited]
        features += [(f"velocity {name}", first + joint) for joint, name in enumerate(names)]
        features += root if layout.floating else []
        features += [(f"effort {names[joint]}", first + joint) for joint in actuated]
        changes = root[:6] if layout.floating else []
        changes += [(f"velocity {name}", first + joint) for joint, name in enumerate(names)]
        self.feature_names = tuple(name for name, _ in features)
        """What each of the F features is."""
        self.feature_owners = tuple(owner for _, owner in features)
        """Which body each feature belongs to: 0 is a floating root, then one per joint."""
        kinds = ["pose"] * (2 * len(continuous) + len(limited)) + ["velocity"] * len(names)
        kinds += (["velocity"] * 6 + ["pose"] * 3) * layout.floating + ["effort"] * len(actuated)
        self.feature_kinds = tuple(kinds)
        """Whether each feature is of the ``"pose"``, a ``"velocity"`` or an ``"effort"``."""
        self.change_names = tuple(name for name, _ in changes)
        """What each of the V changes of velocity is."""
        self.change_owners = tuple(owner for _, owner in changes)
        poses = [f"root {what} {axis}" for what in ("position", "rotation") for axis in "xyz"] * layout.floating
        self.pose_names = (*poses, *(f"position {name}" for name in names))
        """What each of the V numbers of :meth:`pose_change` is."""

    def unpack(self, features: Tensor) -> StateParts:
        """Returns what features (..., F) say of a state; angles of continuous hinges between -pi and pi."""
        layout, lead = self.layout, features.shape[:-1]
        sizes = [len(self._continuous)] * 2 + [len(self._limited), layout.num_joints]
        sizes += [6 * self._floating, 3 * self._floating, len(self._actuated)]
        sin, cos, limited, joint_vel, root_vel, down, effort = features.split(sizes, dim=-1)
        joint_pos = features.new_zeros(*lead, layout.num_joints)
        joint_pos = joint_pos.index_copy(-1, self._continuous, torch.atan2(sin, cos))
        joint_pos = joint_pos.index_copy(-1, self._limited, limited)
        efforts = features.new_zeros(*lead, layout.num_joints).index_copy(-1, self._actuated, effort)
        down = down if self._floating else self.gravity.expand(*lead, 3)
        return StateParts(joint_pos, joint_vel, root_vel, down, efforts)

    def features(self, q: Tensor, qd: Tensor, effort: Tensor) -> Tensor:
        """Returns what a network sees (..., F) of states, and of the efforts [N or N m] of the step that follows."""
        joints, speeds = q[..., self._root_q :], qd[..., self._root_qd :]
        angles = joints.index_select(-1, self._continuous)
        parts = [torch.sin(angles), torch.cos(angles), joints.index_select(-1, self._limited), speeds]
        if self._floating:
            root = q[..., 3:7]
            parts += [quat_apply_inverse(root, qd[..., :3]), quat_apply_inverse(root, qd[..., 3:6])]
            parts.append(quat_apply_inverse(root, self.gravity.expand_as(qd[..., :3])))
        return torch.cat((*parts, effort.index_select(-1, self._actuated)), dim=-1)

    def velocity_change(self, q: Tensor, qd: Tensor, qd_next: Tensor) -> Tensor:
        """Returns how velocities changed over a step (..., V), the root's in its frame at the beginning ``q``."""
        change = qd_next - qd
        if not self._floating:
            return change
        root = q[..., 3:7]
        linear, angular = quat_apply_inverse(root, change[..., :3]), quat_apply_inverse(root, change[..., 3:6])
        return torch.cat((linear, angular, change[..., 6:]), dim=-1)

    def pose_change(self, q: Tensor, q_next: Tensor) -> Tensor:
        """Returns how poses changed over a step (..., V), the root's position [m] and rotation vector [rad] in its
        frame at the beginning."""
        change = q_next[..., self._root_q :] - q[..., self._root_q :]
        change = torch.where(self._wraps, wrap_to_pi(change), change)
        if not self._floating:
            return change
        root = q[..., 3:7]
        position = quat_apply_inverse(root, q_next[..., :3] - q[..., :3])
        rotation = quat_log(quat_mul(quat_conjugate(root), q_next[..., 3:7]))
        return torch.cat((position, rotation, change), dim=-1)

    def integrate(self, q: Tensor, qd_next: Tensor) -> Tensor:
        """Returns the poses (..., Q) that the velocities at the end of a step lead to.

        The rule of the solver that models learn from: q' = q + dt qd', R' = Exp(dt w') R, and, with the root's centre
        of mass c, p' = p + dt (v' - w' x R' c).
        """
        dt = self.layout.dt
        joints = q[..., self._root_q :] + dt * qd_next[..., self._root_qd :]
        if not self._floating:
            return joints
        linear, angular = qd_next[..., :3], qd_next[..., 3:6]
        root = normalize(quat_box_plus(q[..., 3:7], dt * angular))
        arm = quat_apply(root, self._com.expand_as(linear))
        position = q[..., :3] + dt * (linear - torch.linalg.cross(angular, arm))
        return torch.cat((position, root, joints), dim=-1)

    def apply_change(self, q: Tensor, qd: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the poses and velocities at the end of a step in which velocities change by ``change`` (..., V)."""
        if self._floating:
            root = q[..., 3:7]
            linear, angular = quat_apply(root, change[..., :3]), quat_apply(root, change[..., 3:6])
            change = torch.cat((linear, angular, change[..., 6:]), dim=-1)
        qd_next = qd + change
        return self.integrate(q, qd_next), qd_next
