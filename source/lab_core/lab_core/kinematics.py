"""How the bodies of a robot hang together, and where they are: forward kinematics in torch, with gradients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import torch
from torch import Tensor

from lab_core.errors import LabError
from lab_core.math import (
    com_lin_vel_from_link,
    link_lin_vel_from_com,
    matrix_from_quat,
    quat_apply,
    quat_conjugate,
    quat_mul,
)
from lab_core.names import match_names

Vector = tuple[float, float, float]
Pose = tuple[float, float, float, float, float, float, float]
"""Position [m], then unit quaternion xyzw."""
JointKind = Literal["hinge", "slide"]


@dataclass(frozen=True, kw_only=True)
class KinematicTree:
    """Bodies and joints of one articulation, as plain values in the order of its buffers; the first body is the root.

    A joint has a frame that is fixed in the parent and one that is fixed in the body. They coincide where the position
    of the joint is 0; a hinge turns the second about its axis, a slide moves it along the axis. A body without a joint
    is welded to its parent, frame on frame.

    Raises:
        LabError: the values do not describe one tree.
    """

    body_names: tuple[str, ...]
    """B names."""
    parents: tuple[int, ...]
    """Parent of each body; -1: the world, for the root."""
    body_joints: tuple[int, ...]
    """Joint that moves each body in its parent; -1: none."""
    parent_frames: tuple[Pose, ...]
    """Frame of each body's joint in its parent; that of a free root is not used."""
    child_frames: tuple[Pose, ...]
    """Frame of each body's joint in the body."""
    centers_of_mass: tuple[Vector, ...]
    """Of each body in its own frame [m], as it was built."""
    joint_names: tuple[str, ...]
    """J names."""
    joint_kinds: tuple[JointKind, ...]
    """What each joint is."""
    joint_axes: tuple[Vector, ...]
    """Unit vector of each joint in its frame."""
    free_root: bool
    """Whether the root moves freely; otherwise the world holds it, by its joint if it has one."""

    def __post_init__(self) -> None:
        bodies, joints = len(self.body_names), len(self.joint_names)
        for field in ("parents", "body_joints", "parent_frames", "child_frames", "centers_of_mass"):
            if len(getattr(self, field)) != bodies:
                raise LabError(f"A kinematic tree of {bodies} bodies has {len(getattr(self, field))} {field}.")
        for field in ("joint_kinds", "joint_axes"):
            if len(getattr(self, field)) != joints:
                raise LabError(f"A kinematic tree of {joints} joints has {len(getattr(self, field))} {field}.")
        if not bodies or self.parents[0] != -1:
            raise LabError("The first body of a kinematic tree is its root, whose parent is the world (-1).")
        for body, parent in enumerate(self.parents[1:], start=1):
            if not 0 <= parent < bodies:
                raise LabError(f"Body {self.body_names[body]!r} has parent {parent}, the bodies are 0 .. {bodies - 1}.")
            self._depth(body)
        if sorted(joint for joint in self.body_joints if joint != -1) != list(range(joints)):
            raise LabError(f"Each of {joints} joints moves one body, got body_joints {self.body_joints}.")
        if self.free_root and self.body_joints[0] != -1:
            raise LabError(f"The free root {self.body_names[0]!r} has a joint besides.")

    def levels(self, bodies: Sequence[int]) -> list[list[int]]:
        """Returns ``bodies`` and all between them and the root, by their distance from the root, which comes first."""
        needed = {0}
        for body in bodies:
            while body not in needed:
                needed.add(body)
                body = self.parents[body]
        levels: list[list[int]] = []
        for body in sorted(needed, key=lambda body: (self._depth(body), body)):
            if self._depth(body) == len(levels):
                levels.append([])
            levels[-1].append(body)
        return levels

    def _depth(self, body: int) -> int:
        depth, start = 0, body
        while self.parents[body] != -1:
            body, depth = self.parents[body], depth + 1
            if depth > len(self.parents):
                raise LabError(f"Body {self.body_names[start]!r} hangs on itself: its parents form a loop.")
        return depth


@dataclass(frozen=True)
class BodyStates:
    """Poses and velocities of B bodies."""

    pose: Tensor
    """(..., B, 7) link frames in the world."""
    link_vel: Tensor
    """(..., B, 6) linear velocity of the link's origin [m/s], then angular velocity [rad/s], world frame."""
    com_vel: Tensor
    """(..., B, 6) the same with the velocity of the centre of mass."""


class ForwardKinematics:
    """Computes where bodies are and how they move, for any leading shape; differentiable to any order.

    In few operations, since torch launches each of them and rollouts do this in every step. Only orientations go from
    the root outwards, all bodies at one distance from it at once: R = R_parent A Exp(axis q) B^-1 with the frames A and
    B of the joint in parent and body. All else is a sum over the way from the root to the body: w = w_root + sum(a qd)
    and v = v_root + w x p - sum(a qd x o), with axis a and origin o of each hinge on the way, p and o relative to the
    root, all in the world; a slide adds a qd to v. There are no matrix products, which some settings of torch round to
    10 bits.

    Attributes:
        tree: The robot.
        body_names: Names of the B bodies that it computes, in the order of its results.
    """

    def __init__(
        self,
        tree: KinematicTree,
        bodies: str | Sequence[str] | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Prepares the bodies whose names match, in the order of ``bodies``; None: all, in that of the tree.

        Raises:
            UnknownNameError: no body matches.
        """
        self.tree = tree
        chosen = list(range(len(tree.body_names)))
        if bodies is not None:
            chosen = match_names(bodies, tree.body_names, what="body", preserve_order=True)
        self.body_names = tuple(tree.body_names[body] for body in chosen)

        def indices(values: Sequence[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        levels = tree.levels(chosen)
        order = [body for level in levels for body in level]
        ends = [0, *accumulate(len(level) for level in levels)]
        self._levels = [slice(start, end) for start, end in pairwise(ends)]
        self._parents_above = [
            indices([above.index(tree.parents[body]) for body in level])
            for above, level in zip([[-1], *levels], levels, strict=False)
        ]
        rows = [-1, *order]
        self._parents = indices([rows.index(tree.parents[body]) for body in order])
        self._places = indices([order.index(body) for body in chosen])
        self._chosen = indices(chosen)
        # The last column is that of bodies without a joint.
        self._columns = indices([tree.body_joints[body] % (len(tree.joint_names) + 1) for body in order])
        self._joints = _Joints(tree, order, device, dtype)
        self._com = torch.tensor(tree.centers_of_mass, dtype=dtype, device=device)
        self._world = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], dtype=dtype, device=device)
        self._alone: dict[int, ForwardKinematics] = {}

    def of_body(self, body: int) -> ForwardKinematics:
        """Returns the kinematics of one body by its place in the tree, made once: only what lies between it and the
        root is computed."""
        if body not in self._alone:
            name = re.escape(self.tree.body_names[body])
            self._alone[body] = ForwardKinematics(self.tree, name, self._com.device, self._com.dtype)
        return self._alone[body]

    def poses(self, joint_pos: Tensor, root_pose: Tensor | None = None) -> Tensor:
        """Returns the link frames in the world (..., B, 7).

        Args:
            joint_pos: (..., J) [rad or m].
            root_pose: (..., 7) link frame of a free root in the world; a held one needs none.
        """
        base = self._base_pose(joint_pos, root_pose)
        quat, _, pos = self._place(joint_pos, base)
        return self._choose(torch.cat((base[..., :3] + pos, quat), dim=-1))

    def states(
        self,
        joint_pos: Tensor,
        joint_vel: Tensor,
        root_pose: Tensor | None = None,
        root_com_vel: Tensor | None = None,
        body_com: Tensor | None = None,
    ) -> BodyStates:
        """Returns poses and velocities.

        Args:
            joint_pos: (..., J) [rad or m].
            joint_vel: (..., J) [rad/s or m/s].
            root_pose: (..., 7) link frame of a free root in the world; a held one needs none.
            root_com_vel: (..., 6) velocity of its centre of mass [m/s], then angular velocity [rad/s], world frame.
            body_com: (..., n, 3) centres of mass of all bodies of the tree in their frames [m], where they are not as
                built.
        """
        com = self._com if body_com is None else body_com
        base = self._base_pose(joint_pos, root_pose)
        root_lin, root_ang = self._base_vel(base, root_com_vel, com)
        quat, matrix, pos = self._place(joint_pos, base)
        joints, rate = self._joints, self._of_bodies(joint_vel)
        turn = _rotate(matrix, joints.turn_axes) * rate
        slide = _rotate(matrix, joints.slide_axes) * rate
        origin = pos + _rotate(matrix, joints.origins)
        sums = self._sum_outwards(torch.cat((slide - torch.linalg.cross(turn, origin), turn), dim=-1))
        ang = root_ang + sums[..., 3:]
        lin = root_lin + torch.linalg.cross(ang, pos) + sums[..., :3]
        found = self._choose(torch.cat((base[..., :3] + pos, quat, lin, ang), dim=-1))
        pose, lin, ang = found.split((7, 3, 3), dim=-1)
        com_lin = com_lin_vel_from_link(lin, ang, pose[..., 3:], com.index_select(-2, self._chosen).expand_as(lin))
        return BodyStates(pose, found[..., 7:], torch.cat((com_lin, ang), dim=-1))

    def _place(self, joint_pos: Tensor, base: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns of all bodies on the way, by levels: quaternions (..., n, 4), rotation matrices (..., n, 3, 3), and
        positions (..., n, 3) relative to the base in the world."""
        turns, steps = self._joints.move(self._of_bodies(joint_pos))
        quats = [base[..., 3:]]
        for level, parents in zip(self._levels, self._parents_above, strict=True):
            quats.append(_rotate(turns[..., level, :, :], quats[-1].index_select(-2, parents)))
        quat = torch.cat(quats, dim=-2)
        matrix = matrix_from_quat(quat)
        pos = self._sum_outwards(_rotate(matrix.index_select(-3, self._parents), steps))
        return quat[..., 1:, :], matrix[..., 1:, :, :], pos

    def _sum_outwards(self, values: Tensor) -> Tensor:
        """Adds to the values (..., n, C) of each body those of all between it and the root, and the root's."""
        sums = [values[..., self._levels[0], :]]
        for level, parents in zip(self._levels[1:], self._parents_above[1:], strict=True):
            sums.append(values[..., level, :] + sums[-1].index_select(-2, parents))
        return torch.cat(sums, dim=-2)

    def _of_bodies(self, joints: Tensor) -> Tensor:
        """Numbers (..., n, 1) of each body's joint, out of those of the joints (..., J); 0 without one."""
        return torch.nn.functional.pad(joints, (0, 1)).index_select(-1, self._columns).unsqueeze(-1)

    def _base_pose(self, joint_pos: Tensor, root_pose: Tensor | None) -> Tensor:
        """Pose (..., 1, 7) of what the root is placed in: its own frame if it is free, or the world."""
        if not self.tree.free_root:
            root_pose = self._world.expand(*joint_pos.shape[:-1], 7)
        elif root_pose is None:
            raise LabError(f"The root {self.tree.body_names[0]!r} is free: give its pose.")
        return root_pose.unsqueeze(-2)

    def _base_vel(self, base: Tensor, root_com_vel: Tensor | None, com: Tensor) -> tuple[Tensor, Tensor]:
        """Velocity (..., 1, 3) of the origin of :meth:`_base_pose`, linear and angular."""
        if not self.tree.free_root:
            still = torch.zeros_like(base[..., :3])
            return still, still
        if root_com_vel is None:
            raise LabError(f"The root {self.tree.body_names[0]!r} is free: give its velocity.")
        lin, ang = root_com_vel.unsqueeze(-2).split(3, dim=-1)
        return link_lin_vel_from_com(lin, ang, base[..., 3:], com[..., :1, :].expand_as(lin)), ang

    def _choose(self, values: Tensor) -> Tensor:
        return values.index_select(-2, self._places)


class _Joints:
    """How each of n bodies moves in its parent, as constants that the sine and cosine of half an angle multiply.

    Attributes:
        turn_axes: (n, 3) axis of a hinge in the frame of the body; 0 for other joints.
        slide_axes: (n, 3) likewise of a slide.
        origins: (n, 3) origin of the joint in the frame of the body [m].
    """

    def __init__(
        self, tree: KinematicTree, bodies: Sequence[int], device: torch.device | str, dtype: torch.dtype
    ) -> None:
        def tensor(rows: Sequence[Sequence[float]]) -> Tensor:
            return torch.tensor(rows, dtype=torch.float64)

        def of_kind(kind: JointKind) -> Tensor:
            joints = [tree.body_joints[body] for body in bodies]
            still = (0.0, 0.0, 0.0)
            return tensor([tree.joint_axes[j] if j != -1 and tree.joint_kinds[j] == kind else still for j in joints])

        here = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
        above = tensor([here if body == 0 and tree.free_root else tree.parent_frames[body] for body in bodies])
        child = tensor([here if body == 0 and tree.free_root else tree.child_frames[body] for body in bodies])
        turn, slide, still = of_kind("hinge"), of_kind("slide"), tensor([[0.0]] * len(bodies))
        frame, back = above[:, 3:], quat_conjugate(child[:, 3:])
        arm = -quat_apply(back, child[:, :3])  # of the body in the frame that the joint moves
        across = torch.linalg.cross(turn, arm)

        def constant(value: Tensor) -> Tensor:
            return value.to(device=device, dtype=dtype)

        self.turn_axes = constant(quat_apply(child[:, 3:], turn))
        self.slide_axes = constant(quat_apply(child[:, 3:], slide))
        self.origins = constant(child[:, :3])
        self._is_hinge = constant((turn != 0.0).any(dim=-1, keepdim=True).double())
        self._turn_sine = constant(_right_factor(quat_mul(quat_mul(frame, torch.cat((turn, still), dim=-1)), back)))
        self._turn_cosine = constant(_right_factor(quat_mul(frame, back)))
        self._step = constant(above[:, :3] + quat_apply(frame, arm))
        self._step_slide = constant(quat_apply(frame, slide))
        self._step_sine = constant(2.0 * quat_apply(frame, across))
        self._step_square = constant(2.0 * quat_apply(frame, torch.linalg.cross(turn, across)))

    def move(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Returns for joint positions (..., n, 1) what the parent's quaternion is multiplied with (..., n, 4, 4), and
        the body's origin in the parent's frame (..., n, 3) [m]."""
        half = 0.5 * self._is_hinge * position
        sine, cosine = torch.sin(half), torch.cos(half)
        turns = self._turn_sine * sine.unsqueeze(-1) + self._turn_cosine * cosine.unsqueeze(-1)
        # Rodrigues: sin q = 2 sin(q/2) cos(q/2), 1 - cos q = 2 sin(q/2)^2
        turned = sine * (self._step_sine * cosine + self._step_square * sine)
        return turns, self._step + self._step_slide * position + turned


def _right_factor(quat: Tensor) -> Tensor:
    """Matrices (..., 4, 4) that multiply a quaternion by ``quat`` (..., 4) from the right."""
    units = torch.eye(4, dtype=quat.dtype)
    return torch.stack([quat_mul(unit.expand_as(quat), quat) for unit in units], dim=-1)


def _rotate(matrix: Tensor, vector: Tensor) -> Tensor:
    """Products (..., C) of matrices (..., C, D) and vectors (..., D), in full precision."""
    return (matrix * vector.unsqueeze(-2)).sum(dim=-1)
