"""The state that everything else about an articulation follows from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lab_core.scene import ArticulationData


@dataclass(frozen=True)
class ArticulationState:
    """State of K copies of one articulation, in the order and with the names of its buffers.

    A root that the world holds is where the model has it: its pose and velocity here are not used.
    """

    root_link_pose_w: torch.Tensor
    """(K, 7) position [m] and unit quaternion xyzw of the root link."""
    root_com_vel_w: torch.Tensor
    """(K, 6) velocity of the root's centre of mass [m/s], then angular velocity [rad/s], world frame."""
    joint_pos: torch.Tensor
    """(K, J) [rad or m]."""
    joint_vel: torch.Tensor
    """(K, J) [rad/s or m/s]."""

    @classmethod
    def read(cls, data: ArticulationData) -> ArticulationState:
        """Returns a copy of the state of all N environments."""
        return cls(*(getattr(data, name).clone() for name in cls.__dataclass_fields__))
