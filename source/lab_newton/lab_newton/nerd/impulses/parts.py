"""What of a robot moves as one: bodies that are welded together, as one."""

from __future__ import annotations

from typing import Any, NamedTuple

import newton
import torch
import warp as wp
from torch import Tensor

from lab_core.math import matrix_from_quat, quat_apply, quat_conjugate, quat_mul
from lab_newton.nerd.impulses import bodies_kernels as bodies
from lab_newton.nerd.layout import RobotLayout
from lab_newton.nerd.wrenches.rigid_bodies import RigidBodies
from lab_newton.nerd.wrenches.robot import RobotProperties


class _Masses(NamedTuple):
    mass: float
    com: Tensor
    inertia: Tensor


class Parts:
    """The parts of a robot with a free root: the root first, then one per joint. Numbers are float64.

    Args:
        robot: Its masses.
    """

    def __init__(self, robot: RobotProperties) -> None:
        tree = robot.tree
        self._robot = robot
        self._movers = RigidBodies(robot).parts
        part_of = {body: part for part, body in enumerate(self._movers)}
        self._parents = [-1] * len(self._movers)
        members: list[list[int]] = [[] for _ in self._movers]
        self._poses: dict[int, Tensor] = {}
        for body in (body for level in tree.levels(range(len(tree.parents))) for body in level):
            above = tree.parents[body]
            if body in self._movers:
                self._poses[body] = _pose((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
                self._parents[part_of[body]] = part_of[above] if above >= 0 else -1
            else:
                part_of[body] = part_of[above]
                weld = _compose(_pose(tree.parent_frames[body]), _inverse(_pose(tree.child_frames[body])))
                self._poses[body] = _compose(self._poses[above], weld)
            members[part_of[body]].append(body)
        self._masses = [self._join(group) for group in members]

    def _join(self, group: list[int]) -> _Masses:
        """Returns mass, centre of mass, and inertia about that, of welded bodies, in the frame of the first."""
        robot = self._robot
        mass = robot.mass[group]
        poses = torch.stack([self._poses[body] for body in group])
        own = torch.tensor([robot.tree.centers_of_mass[body] for body in group], dtype=torch.float64)
        centres = poses[:, :3] + quat_apply(poses[:, 3:], own)
        com = (mass[:, None] * centres).sum(0) / mass.sum() if mass.sum() > 0.0 else centres[0]
        turn, arm = matrix_from_quat(poses[:, 3:]), centres - com
        shifted = arm.square().sum(-1)[:, None, None] * torch.eye(3) - arm[:, :, None] * arm[:, None, :]
        inertia = turn @ robot.inertia[group] @ turn.mT + mass[:, None, None] * shifted
        return _Masses(float(mass.sum()), com, inertia.sum(0))

    def struct(self, model: newton.Model, layout: RobotLayout) -> Any:
        """Returns it as kernels take it, a ``Robot`` of :mod:`bodies_kernels`.

        Args:
            model: Worlds that hold the robot alone, with bodies of these names.
            layout: Its velocities.
        """
        tree, device = self._robot.tree, model.device
        num_bodies = model.body_count // model.world_count
        places = {label.rsplit("/", 1)[-1]: place for place, label in enumerate(model.body_label[:num_bodies])}
        joints = [tree.body_joints[body] for body in self._movers[1:]]
        frames = torch.tensor([tree.child_frames[body] for body in self._movers[1:]], dtype=torch.float64)
        axes = torch.tensor([tree.joint_axes[joint] for joint in joints], dtype=torch.float64)

        def put(values: list[Any] | Tensor, dtype: type) -> wp.array:
            data = values.numpy() if isinstance(values, Tensor) else values
            return wp.array(data, dtype=dtype, device=device)

        still = torch.zeros(1, 3, dtype=torch.float64)
        robot = bodies.Robot()
        robot.body = put([places[tree.body_names[body]] for body in self._movers], wp.int32)
        robot.mass = put([masses.mass for masses in self._masses], wp.float32)
        robot.com = put(torch.stack([masses.com for masses in self._masses]), wp.vec3)
        robot.inertia = put(torch.stack([masses.inertia for masses in self._masses]), wp.mat33)
        robot.axis = put(torch.cat((still, quat_apply(frames[:, 3:], axes))), wp.vec3)
        robot.origin = put(torch.cat((still, frames[:, :3])), wp.vec3)
        robot.is_hinge = put([False, *(tree.joint_kinds[joint] == "hinge" for joint in joints)], wp.bool)
        parts = [0] * 6 + list(range(1, len(self._movers)))
        robot.part = put(parts, wp.int32)
        robot.moves = put(torch.tensor([self._moved_by(part) for part in parts]), wp.bool)
        robot.is_actuated = put([False] * 6 + [name in layout.actuated for name in layout.joint_names], wp.bool)
        robot.armature = put([0.0] * 6 + self._robot.armature.tolist(), wp.float32)
        robot.damping = put([0.0] * 6 + self._robot.damping.tolist(), wp.float32)
        robot.root_com = wp.vec3(*layout.root_com)
        robot.gravity = wp.vec3(*layout.gravity)
        return robot

    def _moved_by(self, part: int) -> list[bool]:
        """Returns for each part whether it is ``part`` or hangs on it."""
        found = []
        for other in range(len(self._movers)):
            while other not in (part, -1):
                other = self._parents[other]
            found.append(other == part)
        return found


def _pose(values: tuple[float, ...]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _compose(first: Tensor, second: Tensor) -> Tensor:
    return torch.cat((first[:3] + quat_apply(first[3:], second[:3]), quat_mul(first[3:], second[3:])))


def _inverse(pose: Tensor) -> Tensor:
    back = quat_conjugate(pose[3:])
    return torch.cat((-quat_apply(back, pose[:3]), back))
