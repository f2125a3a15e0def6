"""Poses (position [m], unit quaternion xyzw) and the velocity of a body at its link origin and centre of mass."""

from __future__ import annotations

import torch
from torch import Tensor

from lab_core.math.quaternions import quat_apply, quat_apply_inverse, quat_conjugate, quat_mul


def combine_frame_transforms(pos_01: Tensor, quat_01: Tensor, pos_12: Tensor, quat_12: Tensor) -> tuple[Tensor, Tensor]:
    """Pose of frame 2 in frame 0, from that of 1 in 0 and that of 2 in 1.

    Positions are ``(..., 3)``, quaternions ``(..., 4)``.
    """
    return pos_01 + quat_apply(quat_01, pos_12), quat_mul(quat_01, quat_12)


def subtract_frame_transforms(
    pos_01: Tensor, quat_01: Tensor, pos_02: Tensor, quat_02: Tensor
) -> tuple[Tensor, Tensor]:
    """Pose of frame 2 in frame 1, from the poses of both in frame 0.

    Positions are ``(..., 3)``, quaternions ``(..., 4)``.
    """
    return quat_apply_inverse(quat_01, pos_02 - pos_01), quat_mul(quat_conjugate(quat_01), quat_02)


def transform_points(points: Tensor, pos: Tensor, quat: Tensor) -> Tensor:
    """Points ``(..., P, 3)`` of a frame, seen from the frame in which its pose is ``(..., 3)``, ``(..., 4)``."""
    return quat_apply(quat.unsqueeze(-2), points) + pos.unsqueeze(-2)


def link_lin_vel_from_com(com_lin_vel_w: Tensor, ang_vel_w: Tensor, link_quat_w: Tensor, com_pos_b: Tensor) -> Tensor:
    """Velocity ``(..., 3)`` [m/s] of a body's link origin, world frame.

    Args:
        com_lin_vel_w: Velocity ``(..., 3)`` [m/s] of its centre of mass, world frame.
        ang_vel_w: Angular velocity ``(..., 3)`` [rad/s], world frame.
        link_quat_w: Orientation ``(..., 4)`` of the link frame.
        com_pos_b: Centre of mass ``(..., 3)`` [m] in the link frame.
    """
    return com_lin_vel_w - torch.linalg.cross(ang_vel_w, quat_apply(link_quat_w, com_pos_b))


def com_lin_vel_from_link(link_lin_vel_w: Tensor, ang_vel_w: Tensor, link_quat_w: Tensor, com_pos_b: Tensor) -> Tensor:
    """Velocity ``(..., 3)`` [m/s] of a body's centre of mass, world frame: inverse of :func:`link_lin_vel_from_com`."""
    return link_lin_vel_w + torch.linalg.cross(ang_vel_w, quat_apply(link_quat_w, com_pos_b))
