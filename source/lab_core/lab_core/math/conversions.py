"""Quaternions (xyzw) from and to rotation matrices, six numbers, Euler angles, and axis with angle."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lab_core.math.angles import normalize, wrap_to_pi
from lab_core.math.quaternions import quat_apply, quat_unique

_MIN_COLUMN_LENGTH = 1e-4


def quat_from_angle_axis(angle: Tensor, axis: Tensor) -> Tensor:
    """Quaternion ``(..., 4)`` of an angle ``(...)`` [rad] about a unit axis ``(..., 3)``.

    For a rotation vector use :func:`quat_exp`: splitting it into axis and angle loses the gradient at zero.
    """
    half = 0.5 * angle.unsqueeze(-1)
    vector = axis * torch.sin(half)
    return torch.cat((vector, torch.cos(half).expand(*vector.shape[:-1], 1)), dim=-1)


def matrix_from_quat(quat: Tensor) -> Tensor:
    """Rotation matrix ``(..., 3, 3)`` of a unit quaternion ``(..., 4)``: its columns are the rotated axes."""
    axes = torch.eye(3, dtype=quat.dtype, device=quat.device)
    return quat_apply(quat.unsqueeze(-2), axes.expand(*quat.shape[:-1], 3, 3)).transpose(-1, -2)


def quat_from_matrix(matrix: Tensor) -> Tensor:
    """Unit quaternion ``(..., 4)`` with w >= 0 of a rotation matrix ``(..., 3, 3)``."""
    (m00, m01, m02), (m10, m11, m12), (m20, m21, m22) = (row.unbind(-1) for row in matrix.unbind(-2))
    # Row i holds 4 q_i (x, y, z, w): the quaternion up to scale, well conditioned where |q_i| is largest.
    rows = (
        (1.0 + m00 - m11 - m22, m01 + m10, m02 + m20, m21 - m12),
        (m01 + m10, 1.0 - m00 + m11 - m22, m12 + m21, m02 - m20),
        (m02 + m20, m12 + m21, 1.0 - m00 - m11 + m22, m10 - m01),
        (m21 - m12, m02 - m20, m10 - m01, 1.0 + m00 + m11 + m22),
    )
    candidates = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
    largest = candidates.diagonal(dim1=-2, dim2=-1).argmax(dim=-1)
    chosen = torch.take_along_dim(candidates, largest[..., None, None], dim=-2).squeeze(-2)
    return quat_unique(normalize(chosen))


def rotation_angle_squared(matrix1: Tensor, matrix2: Tensor) -> Tensor:
    """Squared angle ``(...)`` [rad^2] between rotation matrices ``(..., 3, 3)``, smooth at zero.

    With x = 1 - cos(angle) = |R1 - R2|^2 / 4, which does not cancel near zero as the trace does:
    angle^2 = 2x + x^2/3 + 4x^3/45 + x^4/35 + ... for small x, else (2 asin(sqrt(x / 2)))^2. Up to 1e-6 below x = 2
    (half a turn) the gradient is finite, beyond it is zero.
    """
    x = 0.25 * (matrix1 - matrix2).square().sum(dim=(-2, -1))
    small = x < 1e-2
    series = x * (2.0 + x * (1.0 / 3.0 + x * (4.0 / 45.0 + x / 35.0)))
    half_sine = torch.sqrt(0.5 * torch.where(small, 1.0, x).clamp(max=2.0 - 1e-6))
    return torch.where(small, series, (2.0 * torch.asin(half_sine)).square())


def rotation_6d_from_matrix(matrix: Tensor) -> Tensor:
    """First two columns of ``(..., 3, 3)``, read row by row, ``(..., 6)``: m00, m01, m10, m11, m20, m21."""
    return matrix[..., :2].flatten(-2)


def matrix_from_rotation_6d(rotation: Tensor) -> Tensor:
    """Rotation matrix ``(..., 3, 3)`` from :func:`rotation_6d_from_matrix` values ``(..., 6)`` of any scale.

    Gram-Schmidt (Zhou et al. 2019, On the Continuity of Rotation Representations). Where the first column, or what
    is left of the second, is not longer than 1e-4, the result is the identity with zero gradient.
    """
    columns = rotation.unflatten(-1, (3, 2))
    first, second = columns[..., 0], columns[..., 1]
    x_axis = normalize(first, eps=_MIN_COLUMN_LENGTH)
    rest = second - (x_axis * second).sum(dim=-1, keepdim=True) * x_axis
    y_axis = normalize(rest, eps=_MIN_COLUMN_LENGTH)
    matrix = torch.stack((x_axis, y_axis, torch.linalg.cross(x_axis, y_axis)), dim=-1)
    # normalize() returns zeros for what is too short
    degenerate = ((x_axis == 0.0).all(dim=-1) | (y_axis == 0.0).all(dim=-1))[..., None, None]
    identity = torch.eye(3, dtype=rotation.dtype, device=rotation.device)
    return torch.where(degenerate, identity, matrix)


def quat_from_euler_xyz(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    """Quaternion ``(..., 4)`` of Rz(yaw) Ry(pitch) Rx(roll), angles ``(...)`` [rad]: about fixed x, then y, then z."""
    cos_r, sin_r = torch.cos(0.5 * roll), torch.sin(0.5 * roll)
    cos_p, sin_p = torch.cos(0.5 * pitch), torch.sin(0.5 * pitch)
    cos_y, sin_y = torch.cos(0.5 * yaw), torch.sin(0.5 * yaw)
    elements = (
        sin_r * cos_p * cos_y - cos_r * sin_p * sin_y,
        cos_r * sin_p * cos_y + sin_r * cos_p * sin_y,
        cos_r * cos_p * sin_y - sin_r * sin_p * cos_y,
        cos_r * cos_p * cos_y + sin_r * sin_p * sin_y,
    )
    return torch.stack(elements, dim=-1)


def euler_xyz_from_quat(quat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Roll, pitch and yaw ``(...)`` [rad] of :func:`quat_from_euler_xyz`; roll and yaw in [-pi, pi], pitch in +-pi/2.

    Accurate up to pitch +-90 degrees, where only the sum or difference of roll and yaw is defined (the result still
    rebuilds the rotation). The gradient grows without bound there: not for a loss.
    """
    x, y, z, w = quat.unbind(-1)
    plus = torch.linalg.vector_norm(torch.stack((x - z, w + y), dim=-1), dim=-1)
    minus = torch.linalg.vector_norm(torch.stack((x + z, w - y), dim=-1), dim=-1)
    pitch = 2.0 * torch.atan2(plus, minus) - 0.5 * math.pi
    roll, yaw = roll_yaw_from_quat(quat).unbind(-1)
    return roll, pitch, yaw


def roll_yaw_from_quat(quat: Tensor) -> Tensor:
    """Roll and yaw ``(..., 2)`` [rad] of :func:`euler_xyz_from_quat`, for a third of its operations."""
    x, y, z, w = quat.unbind(-1)
    # From the half-angle products: both pairs are (cosine, sine) of (roll -+ yaw)/2 scaled by cos(p/2) +- sin(p/2).
    half_difference = torch.atan2(x - z, w + y)
    half_sum = torch.atan2(x + z, w - y)
    return wrap_to_pi(torch.stack((half_sum + half_difference, half_sum - half_difference), dim=-1))
