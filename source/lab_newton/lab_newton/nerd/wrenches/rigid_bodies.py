"""Equations of motion of a tree of rigid bodies, in torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lab_core.kinematics import ForwardKinematics, KinematicTree
from lab_core.math import matrix_from_quat, quat_apply, quat_mul
from lab_newton.nerd.wrenches.robot import RobotProperties


@dataclass(frozen=True)
class BodyMotion:
    """Bodies in a state, and M qdd + h = effort + J^T f, which holds for it; world frame, float64."""

    root_pose: Tensor
    """(..., 7) link frame of the first body."""
    com: Tensor
    """(..., B, 3) centres of mass [m]."""
    spin: Tensor
    """(..., B, 3) angular velocities [rad/s]."""
    inertia: Tensor
    """(..., B, 3, 3) about the centres of mass, in the axes of the world [kg m^2]."""
    linear: Tensor
    """(..., B, 3, V) Jacobian of the velocities of the centres of mass."""
    angular: Tensor
    """(..., B, 3, V) Jacobian of the angular velocities."""
    linear_rate: Tensor
    """(..., B, 3) accelerations of the centres of mass where no velocity of a joint or of the root changes [m/s^2]."""
    angular_rate: Tensor
    """(..., B, 3) angular accelerations there [rad/s^2]."""
    mass_matrix: Tensor
    """(..., V, V) M, with the armature of the joints."""
    bias: Tensor
    """(..., V) h: centrifugal and Coriolis forces, less gravity, with the damping of the joints."""


class RigidBodies:
    """Computes :class:`BodyMotion` for any leading shape, all bodies at once, without reading anything on the host.

    Velocities are those of :class:`lab_newton.nerd.RobotLayout`. A hinge with axis a through o gives a body with centre
    of mass c the angular velocity a and the velocity a x (c - o); their rates follow with a' = w x a.

    Attributes:
        parts: Bodies that move by themselves: a free root, then that of each joint.
    """

    def __init__(
        self, robot: RobotProperties, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64
    ) -> None:
        tree = robot.tree
        self._forward = ForwardKinematics(tree, device=device, dtype=dtype)
        self.free_root = tree.free_root
        movers = [tree.body_joints.index(joint) for joint in range(len(tree.joint_names))]
        self.parts = (*([0] if tree.free_root else []), *movers)

        def put(values: object) -> Tensor:
            return torch.as_tensor(values, dtype=dtype).to(device)

        self.mass, self.gravity = put(robot.mass), put(robot.gravity)
        self._inertia, self._armature = put(robot.inertia), put(robot.armature)
        self.damping = torch.nn.functional.pad(put(robot.damping), (6 * tree.free_root, 0))
        self._com = put(tree.centers_of_mass)
        self._movers = torch.tensor(movers, dtype=torch.int64, device=device)
        child = put([tree.child_frames[body] for body in movers]).view(-1, 7)
        self._origin, self._frame = child[:, :3], child[:, 3:]
        self._axis = put(tree.joint_axes).view(-1, 3)
        self._hinge = put([kind == "hinge" for kind in tree.joint_kinds])
        self.below = put(_descent(tree))
        """(B, B), 1 where the second body is the first, or hangs on it."""
        self._moves = self.below[self._movers].T if movers else put(torch.zeros(len(tree.parents), 0))

    def __call__(self, q: Tensor, qd: Tensor) -> BodyMotion:
        """Returns the motion of bodies in the states ``q`` (..., Q) and ``qd`` (..., V)."""
        q, qd = q.to(self.mass.dtype), qd.to(self.mass.dtype)
        root = q[..., :7] if self.free_root else None
        pose = self._forward.poses(q[..., 7 * self.free_root :], root)
        pos, quat = pose[..., :3], pose[..., 3:7]
        com = pos + quat_apply(quat, self._com.expand_as(pos))
        carrier_pos, carrier_quat = (x.index_select(-2, self._movers) for x in (pos, quat))
        origin = carrier_pos + quat_apply(carrier_quat, self._origin.expand_as(carrier_pos))
        axis = quat_apply(quat_mul(carrier_quat, self._frame.expand_as(carrier_quat)), self._axis.expand_as(origin))
        linear, angular = self._jacobians(com, origin, axis)
        velocity, spin = (torch.einsum("...biv,...v->...bi", jacobian, qd) for jacobian in (linear, angular))
        linear_rate, angular_rate = self._rates(qd, com, origin, axis, velocity, spin)
        turn = matrix_from_quat(quat)
        inertia = turn @ self._inertia @ turn.mT
        force, torque = self.inertial_wrenches(inertia, spin, linear_rate, angular_rate)
        bias = torch.einsum("...biv,...bi->...v", linear, force) + torch.einsum("...biv,...bi->...v", angular, torque)
        mass_matrix = torch.einsum("...biv,b,...biw->...vw", linear, self.mass, linear)
        mass_matrix = mass_matrix + torch.einsum("...biv,...bij,...bjw->...vw", angular, inertia, angular)
        armature = torch.nn.functional.pad(self._armature, (6 * self.free_root, 0))
        return BodyMotion(
            root_pose=pose[..., 0, :],
            com=com,
            spin=spin,
            inertia=inertia,
            linear=linear,
            angular=angular,
            linear_rate=linear_rate,
            angular_rate=angular_rate,
            mass_matrix=mass_matrix + torch.diag(armature),
            bias=bias + self.damping * qd,
        )

    def inertial_wrenches(
        self, inertia: Tensor, spin: Tensor, linear: Tensor, angular: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the force, and the torque about the centre of mass, that bodies need beside gravity to accelerate.

        Newton-Euler: f = m (a - g) and n = I w' + w x I w; all (..., B, 3), world frame.
        """
        force = self.mass[:, None] * (linear - self.gravity)
        momentum = (inertia @ spin[..., None])[..., 0]
        torque = (inertia @ angular[..., None])[..., 0] + torch.linalg.cross(spin, momentum)
        return force, torque

    def _jacobians(self, com: Tensor, origin: Tensor, axis: Tensor) -> tuple[Tensor, Tensor]:
        hinge = self._hinge[:, None]
        arms = com[..., :, None, :] - origin[..., None, :, :]  # (..., B, J, 3)
        axes = axis[..., None, :, :].expand_as(arms)
        moves = self._moves[..., None]
        linear = moves * torch.where(hinge > 0, torch.linalg.cross(axes, arms), axes)
        angular = moves * hinge * axes
        if self.free_root:
            unit = torch.eye(3, dtype=com.dtype, device=com.device).expand(*com.shape, 3)
            arm = (com - com[..., :1, :])[..., None, :].expand_as(unit)
            linear = torch.cat((unit, torch.linalg.cross(unit, arm), linear), dim=-2)
            angular = torch.cat((torch.zeros_like(unit), unit, angular), dim=-2)
        return linear.mT, angular.mT

    def _rates(
        self, qd: Tensor, com: Tensor, origin: Tensor, axis: Tensor, velocity: Tensor, spin: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Time derivative of the Jacobians times ``qd``, both (..., B, 3)."""
        speed, hinge = qd[..., 6 * self.free_root :, None], self._hinge[:, None]
        mover_spin, mover_com, mover_vel = (x.index_select(-2, self._movers) for x in (spin, com, velocity))
        turning = torch.linalg.cross(mover_spin, axis)
        origin_vel = mover_vel + torch.linalg.cross(mover_spin, origin - mover_com)
        arms = com[..., :, None, :] - origin[..., None, :, :]
        arm_rates = velocity[..., :, None, :] - origin_vel[..., None, :, :]
        axes, turnings = (x[..., None, :, :].expand_as(arms) for x in (axis, turning))
        by_hinges = torch.linalg.cross(turnings, arms) + torch.linalg.cross(axes, arm_rates)
        # Of a slide, what it carries also moves along the axis while the axis turns; its arm is not in the Jacobian.
        linear = torch.where(hinge > 0, by_hinges, turnings)
        weights = self._moves[..., None] * speed[..., None, :, :]
        linear_rate = (weights * linear).sum(-2)
        angular_rate = (weights * hinge * turnings).sum(-2)
        if self.free_root:
            root_spin = qd[..., None, 3:6].expand_as(velocity)
            linear_rate = linear_rate + torch.linalg.cross(root_spin, velocity - velocity[..., :1, :])
        return linear_rate, angular_rate


def _descent(tree: KinematicTree) -> list[list[float]]:
    bodies = range(len(tree.parents))
    below = [[0.0] * len(bodies) for _ in bodies]
    for body in bodies:
        above = body
        while above != -1:
            below[above][body] = 1.0
            above = tree.parents[above]
    return below
