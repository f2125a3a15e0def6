"""States of a robot that travel through a learned model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from lab_core.imagination import ArticulationState
from lab_core.math import com_lin_vel_from_link, link_lin_vel_from_com


@dataclass(frozen=True)
class RobotState:
    """State of one robot in any batch ``(...)``, whose root moves with its link, not with its centre of mass.

    A robot that the world holds has a root that does not matter.
    """

    pos: Tensor
    """(..., 3) root link in the world [m]."""
    quat: Tensor
    """(..., 4) its orientation, xyzw."""
    lin_vel: Tensor
    """(..., 3) velocity of its origin, world frame [m/s]."""
    ang_vel: Tensor
    """(..., 3) its angular velocity, world frame [rad/s]."""
    joint_pos: Tensor
    """(..., J) [rad or m]."""
    joint_vel: Tensor
    """(..., J) [rad/s or m/s]."""

    @classmethod
    def from_articulation(cls, state: ArticulationState, root_com: Tensor) -> RobotState:
        """Takes over a state (K, ...); ``root_com`` (K, 3): centre of mass of the root in its link frame [m]."""
        pos, quat = state.root_link_pose_w.split((3, 4), dim=-1)
        com_vel, ang_vel = state.root_com_vel_w.split(3, dim=-1)
        lin_vel = link_lin_vel_from_com(com_vel, ang_vel, quat, root_com)
        return cls(pos, quat, lin_vel, ang_vel, state.joint_pos, state.joint_vel)

    def to_articulation(self, root_com: Tensor) -> ArticulationState:
        """The inverse of :meth:`from_articulation`."""
        com_vel = com_lin_vel_from_link(self.lin_vel, self.ang_vel, self.quat, root_com)
        return ArticulationState(
            torch.cat((self.pos, self.quat), dim=-1),
            torch.cat((com_vel, self.ang_vel), dim=-1),
            self.joint_pos,
            self.joint_vel,
        )

    def tensors(self) -> tuple[Tensor, ...]:
        """Returns the parts in order."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def map(self, function: Callable[[Tensor], Tensor]) -> RobotState:
        """Returns the state of what ``function`` makes of each part."""
        return RobotState(*map(function, self.tensors()))

    @staticmethod
    def stack(states: Sequence[RobotState]) -> RobotState:
        """Returns states (T, ...) of T states (...)."""
        return RobotState(*(torch.stack(parts) for parts in zip(*(s.tensors() for s in states), strict=True)))
