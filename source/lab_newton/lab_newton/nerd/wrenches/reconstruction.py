"""From predicted velocities to the wrenches in the joints."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lab_core.errors import LabError
from lab_core.math import quat_apply, quat_box_plus
from lab_newton.nerd.layout import RobotLayout
from lab_newton.nerd.wrenches.contacts import ContactPoints, solve_contact_forces
from lab_newton.nerd.wrenches.rigid_bodies import BodyMotion, RigidBodies
from lab_newton.nerd.wrenches.robot import RobotProperties


@dataclass(frozen=True)
class JointWrenches:
    """Forces that explain a motion, float64, world frame. P parts: a free root, then the body of each joint."""

    force: Tensor
    """(..., P, 3) that each part receives from its parent [N]; of a free root what is left, 0 up to rounding."""
    torque: Tensor
    """(..., P, 3) the same about the part's centre of mass [N m]."""
    contact_force: Tensor
    """(..., C, 3) on the robot [N]."""
    limit_force: Tensor
    """(..., J) from limits of the joints [N m or N]."""
    acceleration: Tensor
    """(..., V) that goes with them [m/s^2 and rad/s^2]."""
    residual: Tensor
    """(..., J) |M qdd + h - effort - J^T f| of the joints [N m or N]."""
    deviation: Tensor
    """(..., V) by how much accelerations differ from those that were predicted [m/s^2 and rad/s^2]."""


class WrenchReconstruction:
    """Finds accelerations near the predicted ones that contacts in their friction cones and the efforts explain.

    Of a step from (q, qd) to velocities qd', with the recorded efforts: the accelerations qdd and contact forces f that

        minimise   1/2 (qdd - a)^T M (qdd - a),    a = (qd' - qd) / dt
        so that    M qdd + h = effort + J^T f,     f in the friction cones, no effort on a free root,

    in the state at the beginning (Gauss's principle of least constraint, with predicted accelerations in the place of
    free ones). All rows of the equation hold exactly, so the accelerations follow from the forces, which
    :func:`solve_contact_forces` finds. MuJoCo's law of soft contacts, in which forces follow from penetration, is not
    enforced: where several forces have the same effect, the smallest are taken. A joint at its limit is a
    contact without friction, whose force is a torque about the joint. Wrenches follow by Newton-Euler from the leaves
    to the root, without armature, which belongs to no body.

    States, equations and wrenches are computed in float64, the iterations in float32. Nothing is read on the host.

    Args:
        layout: The robot's coordinates and the duration of a step.
        robot: Its masses, with the joints in the same order.
        friction: Coefficient of friction of all contacts.
        iterations: Of each of three steps of the search for contact forces.
        device: Where to compute.

    Raises:
        LabError: ``robot`` has other joints than ``layout``.
    """

    def __init__(
        self,
        layout: RobotLayout,
        robot: RobotProperties,
        friction: float = 1.0,
        iterations: int = 300,
        device: torch.device | str = "cpu",
    ) -> None:
        if layout.joint_names != robot.tree.joint_names or layout.floating != robot.tree.free_root:
            raise LabError(
                f"The masses are of the joints {robot.tree.joint_names} (free root: {robot.tree.free_root}), the "
                f"states of {layout.joint_names} (free root: {layout.floating})."
            )
        self.layout = layout
        self.part_names = tuple(robot.tree.body_names[body] for body in RigidBodies(robot).parts)
        """Names of the P parts."""
        self.bodies = RigidBodies(robot, device)
        self._parts = torch.tensor(self.bodies.parts, dtype=torch.int64, device=device)
        self._below = self.bodies.below[self._parts]
        self._friction, self._iterations = friction, iterations
        self._limits = _JointLimits(layout, robot, device)
        self._root_com = torch.tensor(layout.root_com, dtype=torch.float64, device=device)

    def __call__(
        self, q: Tensor, qd: Tensor, qd_next: Tensor, effort: Tensor, contacts: ContactPoints
    ) -> JointWrenches:
        """Returns the wrenches of steps.

        Args:
            q: (..., Q) at the beginning.
            qd: (..., V) at the beginning.
            qd_next: (..., V) at the end, recorded or predicted.
            effort: (..., J) of all joints during the step [N m or N].
            contacts: Of the beginning.
        """
        motion = self.bodies(q, qd)
        efforts = torch.nn.functional.pad(effort.double(), (6 * self.layout.floating, 0))
        wanted = self.accelerations(q, qd, qd_next)
        # The solver that is learned from integrates damping implicitly: (M + dt D) (qd' - qd) / dt is the force.
        missing = torch.einsum("...vw,...w->...v", motion.mass_matrix, wanted) + motion.bias - efforts
        missing = missing + self.layout.dt * self.bodies.damping * wanted
        rows = self._constraints(q, motion, contacts)
        factor = torch.linalg.cholesky_ex(motion.mass_matrix)[0]
        flat = rows.jacobian.flatten(-3, -2)
        reach = torch.cholesky_solve(flat.mT, factor)  # (..., V, 3K)
        shape = rows.axis.shape[-2:]
        response = (flat @ reach).unflatten(-1, shape).unflatten(-3, shape)
        drift = -torch.einsum("...vr,...v->...r", reach, missing).unflatten(-1, shape)
        force = solve_contact_forces(response, drift, rows.axis, rows.friction, self._iterations)
        force = force * rows.active[..., None]
        pushed = torch.einsum("...kiv,...ki->...v", rows.jacobian, force)
        acceleration = torch.cholesky_solve((efforts + pushed - motion.bias)[..., None], factor)[..., 0]
        balance = torch.einsum("...vw,...w->...v", motion.mass_matrix, acceleration) + motion.bias - pushed - efforts
        touching = contacts.normal.shape[-2]
        contact_force, first = force[..., :touching, :], 6 * self.layout.floating
        joint_force, joint_torque = self._wrenches(motion, acceleration, contacts, contact_force)
        return JointWrenches(
            force=joint_force,
            torque=joint_torque,
            contact_force=contact_force,
            limit_force=torch.einsum("...kiv,...ki->...v", rows.jacobian, force * rows.is_limit)[..., first:],
            acceleration=acceleration,
            residual=balance[..., first:].abs(),
            deviation=acceleration - wanted,
        )

    def accelerations(self, q: Tensor, qd: Tensor, qd_next: Tensor) -> Tensor:
        """Returns the accelerations (..., V) at the beginning of steps that end with ``qd_next``.

        The solver integrates the velocity of a free root's origin, states hold that of its centre of mass c:
        v_o = v - w x R c, and a = v_o' + w' x R c + w x (w x R c).
        """
        q, qd, qd_next, dt = q.double(), qd.double(), qd_next.double(), self.layout.dt
        change = (qd_next - qd) / dt
        if not self.layout.floating:
            return change
        spin, spin_next, root = qd[..., 3:6], qd_next[..., 3:6], q[..., 3:7]
        arm = quat_apply(root, self._root_com.expand_as(spin))
        arm_next = quat_apply(quat_box_plus(root, dt * spin_next), self._root_com.expand_as(spin))
        cross = torch.linalg.cross
        origin = change[..., :3] - (cross(spin_next, arm_next) - cross(spin, arm)) / dt
        linear = origin + cross(change[..., 3:6], arm) + cross(spin, cross(spin, arm))
        return torch.cat((linear, change[..., 3:]), dim=-1)

    def _constraints(self, q: Tensor, motion: BodyMotion, contacts: ContactPoints) -> _Constraints:
        """Contacts, then joints that have limits."""
        touching = self._contact_jacobian(motion, contacts)
        limits, stopped = self._limits.jacobian(q.double())
        axis = self._limits.axis.expand(*limits.shape[:-2], 3)
        slopes = contacts.active.double() * self._friction
        return _Constraints(
            jacobian=torch.cat((touching, limits), dim=-3),
            active=torch.cat((contacts.active, stopped), dim=-1),
            axis=torch.cat((contacts.normal.double(), axis), dim=-2),
            friction=torch.cat((slopes, torch.zeros_like(stopped, dtype=slopes.dtype)), dim=-1),
            is_limit=torch.cat((torch.zeros_like(contacts.active), torch.ones_like(stopped)), dim=-1)[..., None],
        )

    def _contact_jacobian(self, motion: BodyMotion, contacts: ContactPoints) -> Tensor:
        """Jacobian (..., C, 3, V) of the velocities of the touched points; 0 where nothing is touched."""
        body = self._parts[contacts.part]
        rows = body[..., None, None].expand(*body.shape, *motion.linear.shape[-2:])
        linear, angular = (torch.gather(x, -3, rows) for x in (motion.linear, motion.angular))
        com = torch.gather(motion.com, -2, body[..., None].expand(*body.shape, 3))
        arm = (contacts.point - com)[..., None].expand_as(angular)
        jacobian = linear + torch.linalg.cross(angular, arm, dim=-2)
        return jacobian * contacts.active[..., None, None]

    def _wrenches(
        self, motion: BodyMotion, acceleration: Tensor, contacts: ContactPoints, contact_force: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Sums what each part and all that hangs on it need, less what contacts give; (..., P, 3) each."""
        linear, angular = (torch.einsum("...biv,...v->...bi", x, acceleration) for x in (motion.linear, motion.angular))
        force, torque = self.bodies.inertial_wrenches(
            motion.inertia, motion.spin, linear + motion.linear_rate, angular + motion.angular_rate
        )
        centre = motion.com[..., self._parts, :]
        below = self._below[:, self._parts][:, contacts.part.flatten()].view(len(self._parts), *contacts.part.shape)
        touched = below.movedim(0, -2)  # (..., P, C)
        needed = self._below @ force - touched @ contact_force
        # Torques about the origin of the world, then about the parts.
        about_world = torque + torch.linalg.cross(motion.com, force)
        given = torch.linalg.cross(contacts.point.to(contact_force.dtype), contact_force)
        moment = self._below @ about_world - touched @ given
        return needed, moment - torch.linalg.cross(centre, needed)


@dataclass(frozen=True)
class _Constraints:
    """K contacts and limits."""

    jacobian: Tensor
    """(..., K, 3, V), 0 of those that are not active."""
    active: Tensor
    axis: Tensor
    """(..., K, 3) of the cones."""
    friction: Tensor
    is_limit: Tensor
    """(..., K, 1) bool."""


class _JointLimits:
    """Joints with limits as contacts in a space of their own, whose first axis is the torque away from the limit."""

    def __init__(self, layout: RobotLayout, robot: RobotProperties, device: torch.device | str) -> None:
        joints = [joint for joint, turns in enumerate(layout.continuous) if not turns]
        self._columns = torch.tensor(joints, dtype=torch.int64, device=device) + 7 * layout.floating
        self._limits = robot.limits[joints].to(device)
        unit = torch.zeros(len(joints), 3, layout.num_velocities, dtype=torch.float64, device=device)
        for row, joint in enumerate(joints):
            unit[row, 0, joint + 6 * layout.floating] = 1.0
        self._unit = unit
        self.axis = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64, device=device)

    def jacobian(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the Jacobian (..., L, 3, V), and which joints are at a limit (..., L)."""
        position = q.index_select(-1, self._columns)
        side = (position <= self._limits[:, 0]).double() - (position >= self._limits[:, 1]).double()
        return side[..., None, None] * self._unit, side != 0.0
