"""A network that learned what contacts do, beside the equations of motion, which nobody has to learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from lab_core.config import PositiveInt
from lab_core.sensors import GEOMETRY_SIZE
from lab_newton.nerd.inverse import invert_positive
from lab_newton.nerd.networks.contacts import Contacts
from lab_newton.nerd.networks.network import Network
from lab_newton.nerd.networks.precision import full_precision
from lab_newton.nerd.wrenches.rigid_bodies import BodyMotion, RigidBodies

if TYPE_CHECKING:
    from lab_newton.nerd.representation import Representation
    from lab_newton.nerd.wrenches.robot import RobotProperties

_NEAR = 0.1
"""Distance from a limit below which it can push [rad or m]."""
_FLOOR = 1e-3
"""Added to the inverse masses that are divided by, of their unit [1/kg or 1/(kg m^2)]."""


class ContactImpulses(Network):
    """Changes of velocity by the equations of motion, with impulses of contacts and of joint limits that it learned.

    Without contacts velocities change by M^-1 (tau - h) dt. Contacts add M^-1 J^T lambda, limits likewise. As a solver
    of contacts does, it goes over all of them several times: in each round the same small layers look at a contact, at
    how its point would move with the impulses so far, and change its impulse. What one contact does to another passes
    through the masses of the robot, so that nothing of its shape has to be learned, and any number of contacts will do.

    Takes and gives SI units. For robots of hinges and slides, of which it knows the masses.

    Args:
        representation: What channels are.
        robot: Masses of the robot, with joints in the same order.
        rounds: How often it goes over the contacts.
        hidden: Units of each of the two layers of a round.
        memory: Numbers that a contact keeps from round to round.
    """

    in_units = True
    needs_masses = True

    def __init__(
        self,
        representation: Representation,
        robot: RobotProperties,
        rounds: PositiveInt = 4,
        hidden: PositiveInt = 64,
        memory: PositiveInt = 16,
    ) -> None:
        super().__init__(representation.feature_owners, representation.change_owners, context=1)
        self.contact_channels = GEOMETRY_SIZE
        self.token_size = self.num_outputs
        self._representation = [representation]  # not a part of this module
        self._robot = robot
        self.memory = memory
        self._floating = representation.layout.floating
        self._dt = representation.layout.dt
        self._gravity = float(torch.tensor(representation.layout.gravity).norm())
        self._bodies: RigidBodies | None = None
        wide = (robot.limits[:, 1] - robot.limits[:, 0]) > 2.0 * torch.pi
        limited = (~wide).nonzero()[:, 0]
        columns = torch.nn.functional.one_hot(limited + 6 * self._floating, self.num_outputs).float()
        for name, value in {
            "_limited": limited,
            "_limits": robot.limits[limited].float(),
            "_columns": columns[:, None],
            "_parts": torch.tensor(RigidBodies(robot).parts),
            "_axes": torch.eye(3),
        }.items():  # on the device: a graph cannot hold a copy from the host
            self.register_buffer(name, value, persistent=False)
        self.contact_rounds = nn.ModuleList(_layers(15 + memory, hidden, 3 + memory) for _ in range(rounds))
        self.limit_rounds = nn.ModuleList(_layers(4 + memory, hidden, 1 + memory) for _ in range(rounds))

    _limited: Tensor
    _limits: Tensor
    _columns: Tensor
    _parts: Tensor
    _axes: Tensor

    @property
    def limited(self) -> Tensor:
        """(L,) joints that have limits."""
        return self._limited

    @property
    def limits(self) -> Tensor:
        """(L, 2) theirs [rad or m]."""
        return self._limits

    @classmethod
    def for_robot(
        cls, representation: Representation, options: Mapping[str, Any], robot: RobotProperties | None = None
    ) -> Self:
        if robot is None:
            raise ValueError("it needs the masses of a robot whose joints have no dry friction")
        return cls(representation, robot, **options)

    def encode(self, frames: Tensor, contacts: Contacts | None = None) -> Tensor:
        """Returns changes of velocity (B, T, V) in SI units; a frame needs no other one."""
        if contacts is None:
            raise ValueError(f"This {type(self).__name__} looks at contacts, and was given none.")
        shape = frames.shape[:2]
        with full_precision(frames):
            flat = Contacts(*(value.flatten(0, 1) for value in contacts))
            return self._changes(frames.flatten(0, 1).float(), flat).unflatten(0, shape)

    def mix(self, tokens: Tensor, length: Tensor | None = None) -> Tensor:
        return tokens

    def _changes(self, features: Tensor, contacts: Contacts) -> Tensor:
        """Changes (B, V) for features (B, F) and contacts (B, K, ...)."""
        parts = self._representation[0].unpack(features)
        bodies = self._rigid_bodies(features.device)
        # In the frame of the root, in which contacts are given; where it is and how fast matters to nobody else.
        pose = torch.zeros_like(features[:, :7])
        pose[:, 6] = 1.0
        q = torch.cat((pose, parts.joint_pos), dim=-1) if self._floating else parts.joint_pos
        qd = torch.cat((parts.root_vel, parts.joint_vel), dim=-1) if self._floating else parts.joint_vel
        motion = bodies(q, qd)
        weight = torch.einsum("bniv,n,bi->bv", motion.linear, bodies.mass, self._gravity * parts.down)
        effort = torch.cat((torch.zeros_like(parts.root_vel), parts.effort), dim=-1)
        # Damping of joints acts on the velocity at the end of the step.
        matrix = motion.mass_matrix + self._dt * torch.diag(bodies.damping)
        response = invert_positive(matrix)
        free = self._dt * (response @ (effort + weight - motion.bias)[..., None])[..., 0]
        contact = _Rows(*self._contact_rows(motion, contacts), response, self.memory)
        limit = _Rows(*self._limit_rows(parts.joint_pos), response, self.memory)
        gap = contacts.geometry[..., 9:10]
        change = free
        for look, press in zip(self.contact_rounds, self.limit_rounds, strict=True):
            speed = contact.velocity(qd + change)
            seen = ((gap / 0.01).clamp(-3, 3), torch.tanh(gap / 0.001), (gap / self._dt + speed[..., :1]).clamp(-3, 3))
            contact.add(look(torch.cat((*seen, speed.clamp(-5, 5), *contact.state()), dim=-1)))
            speed = limit.velocity(qd + change)
            limit.add(press(torch.cat(((limit.gap / 0.05).clamp(-3, 3), speed / 5.0, *limit.state()), dim=-1)))
            change = free + (response @ (contact.force() + limit.force())[..., None])[..., 0]
        return change

    def _contact_rows(self, motion: BodyMotion, contacts: Contacts) -> tuple[Tensor, Tensor, Tensor]:
        """Jacobian (B, K, 3, V) of the contact's point along its normal and two tangents; which count; gaps."""
        part = self._parts[contacts.owner.long()]
        valid = contacts.valid[..., None]
        geometry = torch.where(valid, contacts.geometry, 0.0)
        point, normal = geometry[..., :3], torch.where(valid, geometry[..., 3:6], self._axes[2])

        def of_parts(values: Tensor) -> Tensor:
            index = part.view(*part.shape, *(1,) * (values.dim() - 2)).expand(*part.shape, *values.shape[2:])
            return torch.gather(values, 1, index)

        arm = (point - of_parts(motion.com))[..., None].expand(*part.shape, 3, motion.linear.shape[-1])
        jacobian = of_parts(motion.linear) + torch.linalg.cross(of_parts(motion.angular), arm, dim=-2)
        return valid[..., None] * (self._frames(normal) @ jacobian), contacts.valid, geometry[..., 9:10]

    def _limit_rows(self, joint_pos: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of the nearer limit of each joint that has one: (B, L, 1, V), away from it."""
        position = joint_pos.index_select(-1, self._limited)
        above, below = position - self._limits[:, 0], self._limits[:, 1] - position
        sign, gap = torch.where(above < below, 1.0, -1.0), torch.minimum(above, below)
        return sign[..., None, None] * self._columns, gap < _NEAR, gap[..., None]

    def _frames(self, normal: Tensor) -> Tensor:
        """Rows (..., 3, 3): a unit vector (..., 3) and two across it."""
        x, y, _ = self._axes
        across = torch.linalg.cross(normal, torch.where(normal[..., :1].abs() < 0.9, x, y))
        across = torch.nn.functional.normalize(across, dim=-1)
        return torch.stack((normal, across, torch.linalg.cross(normal, across)), dim=-2)

    def _rigid_bodies(self, device: torch.device) -> RigidBodies:
        if self._bodies is None or self._bodies.mass.device != device:
            # Gravity turns with the root, in whose frame all this is.
            still = replace(self._robot, gravity=torch.zeros(3))
            self._bodies = RigidBodies(still, device, torch.float32)
        return self._bodies


class _Rows:
    """Impulses at K places, in R directions each, and what they do through the masses of the robot.

    Args:
        jacobian: (B, K, R, V) from velocities of the robot to those of the places.
        active: (B, K) where an impulse may act.
        gap: (B, K, 1) [m or rad].
        response: (B, V, V) inverse of the mass matrix.
        memory: Numbers that each place keeps.
    """

    def __init__(self, jacobian: Tensor, active: Tensor, gap: Tensor, response: Tensor, memory: int) -> None:
        self.gap = gap
        self._jacobian, self._active = jacobian, active[..., None]
        size = jacobian.shape[2]
        reach = (jacobian.flatten(1, 2) @ response).unflatten(1, jacobian.shape[1:3])
        # Velocity of each place per impulse.
        own = reach @ jacobian.mT + _FLOOR * torch.eye(size, device=response.device)
        self._own, self._inverse = own, invert_positive(own)
        diagonal = own.diagonal(dim1=-2, dim2=-1)
        across = torch.triu_indices(size, size, offset=1, device=response.device)
        shape = own[..., across[0], across[1]] / diagonal[..., across[0]]
        self._masses = torch.cat((torch.log(diagonal), shape), dim=-1)
        self._impulse = torch.zeros_like(jacobian[..., 0])
        self._memory = torch.zeros(*jacobian.shape[:2], memory, device=response.device)

    def velocity(self, velocity: Tensor) -> Tensor:
        """Velocities (B, K, R) of the places, for those of the robot (B, V)."""
        return (self._jacobian @ velocity[:, None, :, None])[..., 0]

    def force(self) -> Tensor:
        """What all impulses together are on the robot's coordinates (B, V)."""
        return torch.einsum("bkrv,bkr->bv", self._jacobian, self._impulse)

    def state(self) -> tuple[Tensor, Tensor, Tensor]:
        """Velocities of places by their own impulses; masses that they feel; what they keep; (B, K, ...)."""
        pushed = (self._own @ self._impulse[..., None])[..., 0]
        return pushed.clamp(-5.0, 5.0), self._masses, self._memory

    def add(self, outputs: Tensor) -> None:
        """Changes velocities of places by their own impulses, by the first R of (B, K, R + memory)."""
        size = self._impulse.shape[-1]
        self._impulse = self._impulse + self._active * (self._inverse @ outputs[..., :size, None])[..., 0]
        self._memory = self._memory + outputs[..., size:]


def _layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    last = nn.Linear(hidden, outputs)
    with torch.no_grad():  # nothing pushes yet
        last.weight.mul_(0.1)
        last.bias.zero_()
    return nn.Sequential(nn.Linear(inputs, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), last)
