"""How the bodies of a robot hang together, and where they are: forward kinematics in torch, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lab_core.errors import LabError
from lab_core.math import (
    com_lin_vel_from_link,
    combine_frame_transforms,
    link_lin_vel_from_com,
    quat_apply,
    quat_apply_inverse,
    quat_conjugate,
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

    It goes from the root outwards, all bodies at the same distance from it at once: R = R_p A Exp(axis q) B^-1 with
    the frames A and B of the joint in parent and body, and likewise with their origins. Velocities of origins add up
    as w = w_p + a qd and v = v_p + w_p x (p - p_p) + a qd x (p - p_joint), with the axis a in the world.

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
        levels = tree.levels(chosen)
        order = [body for level in levels for body in level]
        above = [[-1], *levels] if not tree.free_root else levels
        self._levels = [
            _Level(tree, upper, lower, device, dtype) for upper, lower in zip(above, above[1:], strict=False)
        ]
        self._places = torch.tensor([order.index(body) for body in chosen], device=device)
        self._chosen = torch.tensor(chosen, device=device)
        self._com = torch.tensor(tree.centers_of_mass, dtype=dtype, device=device)
        self._world = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], dtype=dtype, device=device)

    def poses(self, joint_pos: Tensor, root_pose: Tensor | None = None) -> Tensor:
        """Returns the link frames in the world (..., B, 7).

        Args:
            joint_pos: (..., J) [rad or m].
            root_pose: (..., 7) link frame of a free root in the world; a held one needs none.
        """
        joints = _with_none(joint_pos)
        pos, quat = self._base_pose(joint_pos, root_pose)
        found_pos, found_quat = ([pos], [quat]) if self.tree.free_root else ([], [])
        for level in self._levels:
            _, _, pos, quat = level.move(pos, quat, joints)
            found_pos.append(pos)
            found_quat.append(quat)
        return torch.cat((self._choose(found_pos), self._choose(found_quat)), dim=-1)

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
        joints, rates = _with_none(joint_pos), _with_none(joint_vel)
        pos, quat = self._base_pose(joint_pos, root_pose)
        lin, ang = self._base_vel(quat, root_com_vel, com)
        found = [(pos, quat, lin, ang)] if self.tree.free_root else []
        for level in self._levels:
            parent_pos = level.of_parents(pos)
            parent_lin, parent_ang = level.of_parents(lin), level.of_parents(ang)
            joint_origin, joint_quat, pos, quat = level.move(pos, quat, joints)
            slide, turn = level.rates(joint_quat, rates)
            lin = parent_lin + torch.linalg.cross(parent_ang, pos - parent_pos)
            lin = lin + slide + torch.linalg.cross(turn, pos - joint_origin)
            ang = parent_ang + turn
            found.append((pos, quat, lin, ang))
        pos, quat, lin, ang = (self._choose(list(parts)) for parts in zip(*found, strict=True))
        com_lin = com_lin_vel_from_link(lin, ang, quat, com.index_select(-2, self._chosen).expand_as(lin))
        return BodyStates(
            torch.cat((pos, quat), dim=-1), torch.cat((lin, ang), dim=-1), torch.cat((com_lin, ang), dim=-1)
        )

    def _base_pose(self, joint_pos: Tensor, root_pose: Tensor | None) -> tuple[Tensor, Tensor]:
        """Pose (..., 1, 3 and 4) of what the first level hangs on: the free root, or the world."""
        if not self.tree.free_root:
            root_pose = self._world.expand(*joint_pos.shape[:-1], 7)
        elif root_pose is None:
            raise LabError(f"The root {self.tree.body_names[0]!r} is free: give its pose.")
        return root_pose[..., None, :3], root_pose[..., None, 3:7]

    def _base_vel(self, quat: Tensor, root_com_vel: Tensor | None, com: Tensor) -> tuple[Tensor, Tensor]:
        """Velocity (..., 1, 3 and 3) of the origin of what the first level hangs on."""
        if not self.tree.free_root:
            still = torch.zeros_like(quat[..., :3])
            return still, still
        if root_com_vel is None:
            raise LabError(f"The root {self.tree.body_names[0]!r} is free: give its velocity.")
        lin, ang = root_com_vel[..., None, :3], root_com_vel[..., None, 3:6]
        return link_lin_vel_from_com(lin, ang, quat, com[..., :1, :].expand_as(lin)), ang

    def _choose(self, levels: list[Tensor]) -> Tensor:
        return torch.cat(levels, dim=-2).index_select(-2, self._places)


class _Level:
    """Bodies at one distance from the root, and how they hang on those of the level above."""

    def __init__(
        self,
        tree: KinematicTree,
        above: Sequence[int],
        bodies: Sequence[int],
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> None:
        def tensor(rows: Sequence[Sequence[float]]) -> Tensor:
            return torch.tensor(rows, dtype=dtype, device=device)

        joints = [tree.body_joints[body] for body in bodies]
        axes = {
            kind: tensor(
                [tree.joint_axes[j] if j != -1 and tree.joint_kinds[j] == kind else (0.0, 0.0, 0.0) for j in joints]
            )
            for kind in ("hinge", "slide")
        }
        self._parents = torch.tensor([above.index(tree.parents[body]) for body in bodies], device=device)
        # The last column is that of bodies without a joint.
        self._joints = torch.tensor([len(tree.joint_names) if j == -1 else j for j in joints], device=device)
        self._turn_axis, self._slide_axis = axes["hinge"], axes["slide"]
        self._half = 0.5 * (self._turn_axis != 0.0).any(dim=-1).to(dtype)
        frame = tensor([tree.parent_frames[body] for body in bodies])
        self._frame_pos, self._frame_quat = frame[:, :3], frame[:, 3:]
        child = tensor([tree.child_frames[body] for body in bodies])
        self._back_quat = quat_conjugate(child[:, 3:])
        self._back_pos = -quat_apply_inverse(child[:, 3:], child[:, :3])

    def of_parents(self, values: Tensor) -> Tensor:
        """Rows (..., n, C) of the parents, of those (..., m, C) of the level above."""
        return values.index_select(-2, self._parents)

    def move(self, pos: Tensor, quat: Tensor, joints: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns position and quaternion (..., n, C) of the joints' frames in the bodies, then those of the bodies."""
        angle = joints.index_select(-1, self._joints)
        half = self._half * angle
        turn = torch.cat((self._turn_axis * torch.sin(half).unsqueeze(-1), torch.cos(half).unsqueeze(-1)), dim=-1)
        slide = self._slide_axis * angle.unsqueeze(-1)
        frame = combine_frame_transforms(self.of_parents(pos), self.of_parents(quat), self._frame_pos, self._frame_quat)
        joint = combine_frame_transforms(*frame, slide, turn)
        return *joint, *combine_frame_transforms(*joint, self._back_pos, self._back_quat)

    def rates(self, joint_quat: Tensor, rates: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the linear and the angular velocity (..., n, 3) that the joints add, world frame."""
        rate = rates.index_select(-1, self._joints).unsqueeze(-1)
        # The axis is the same in both frames of a joint.
        return quat_apply(joint_quat, self._slide_axis * rate), quat_apply(joint_quat, self._turn_axis * rate)


def _with_none(joints: Tensor) -> Tensor:
    """Appends the column of bodies without a joint, zero."""
    return torch.nn.functional.pad(joints, (0, 1))
