"""Unit quaternions, order xyzw, batched over the leading dimensions ``(..., 4)``.

Every function has right and finite gradients at the identity, at its negative and between equal rotations, where the
usual formulas give NaN or zero. Where two formulas meet, the one that is not used gets a safe input: a select
multiplies the derivative of the arm that it drops by zero, and zero times infinity is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lab_core.math.angles import normalize


def quat_mul(q1: Tensor, q2: Tensor) -> Tensor:
    """Hamilton product ``(..., 4)``: the rotation ``q2`` followed by ``q1``.

    Written in vectors: element by element it would be 28 operations, each a launch on a GPU.
    """
    dtype = torch.promote_types(q1.dtype, q2.dtype)  # cross products do not promote by themselves
    (v1, w1), (v2, w2) = (quat.to(dtype).split((3, 1), dim=-1) for quat in (q1, q2))
    vector = torch.addcmul(torch.addcmul(_cross(v1, v2), w1, v2), w2, v1)
    return torch.cat((vector, w1 * w2 - (v1 * v2).sum(dim=-1, keepdim=True)), dim=-1)


def quat_conjugate(quat: Tensor) -> Tensor:
    """Conjugate ``(..., 4)``: the inverse rotation of a unit quaternion."""
    return torch.cat((-quat[..., :3], quat[..., 3:]), dim=-1)


def quat_inv(quat: Tensor) -> Tensor:
    """Inverse ``(..., 4)`` of a quaternion of any norm but zero."""
    return quat_conjugate(quat) / quat.square().sum(dim=-1, keepdim=True)


def quat_apply(quat: Tensor, vector: Tensor) -> Tensor:
    """Rotate vectors ``(..., 3)``, for instance from the body frame to the world."""
    axis, w = quat[..., :3], quat[..., 3:]
    twice_cross = 2.0 * _cross(axis, vector)
    return vector + w * twice_cross + _cross(axis, twice_cross)


def quat_apply_inverse(quat: Tensor, vector: Tensor) -> Tensor:
    """Rotate vectors ``(..., 3)`` by the inverse rotation, for instance from the world to the body frame."""
    axis, w = quat[..., :3], quat[..., 3:]
    twice_cross = 2.0 * _cross(axis, vector)
    return vector - w * twice_cross + _cross(axis, twice_cross)


def quat_exp(rotation_vector: Tensor) -> Tensor:
    """Quaternion ``(..., 4)`` of a rotation vector ``(..., 3)`` (axis times angle [rad])."""
    squared_angle = rotation_vector.square().sum(dim=-1, keepdim=True)
    small = squared_angle < 1e-8
    angle = torch.sqrt(torch.where(small, 1.0, squared_angle))
    w = torch.where(small, 1.0 - squared_angle / 8.0, torch.cos(0.5 * angle))
    scale = torch.where(small, 0.5 - squared_angle / 48.0, torch.sin(0.5 * angle) / angle)
    return torch.cat((rotation_vector * scale, w), dim=-1)


def quat_log(quat: Tensor) -> Tensor:
    """Rotation vector ``(..., 3)`` (axis times angle, angle in [0, pi] rad) the short way: of q as of -q."""
    axis = quat[..., :3]
    sign = torch.where(quat[..., 3:] < 0.0, -1.0, 1.0)  # never 0, unlike torch.sign
    w = sign * quat[..., 3:]
    squared_sine = axis.square().sum(dim=-1, keepdim=True)
    small = squared_sine < 1e-10
    sine = torch.sqrt(torch.where(small, 1.0, squared_sine))
    safe_w = torch.where(small, w, 1.0)
    near_zero = 2.0 / safe_w * (1.0 - squared_sine / (3.0 * safe_w.square()))
    return sign * axis * torch.where(small, near_zero, 2.0 * torch.atan2(sine, w) / sine)


def quat_box_plus(quat: Tensor, delta: Tensor) -> Tensor:
    """Rotate ``quat`` further by the rotation vector ``delta`` ``(..., 3)`` [rad], given in the outer (world) frame."""
    return quat_mul(quat_exp(delta), quat)


def quat_box_minus(q1: Tensor, q2: Tensor) -> Tensor:
    """Rotation vector ``(..., 3)`` [rad] in the outer (world) frame that takes ``q2`` to ``q1`` the short way."""
    return quat_log(quat_mul(q1, quat_conjugate(q2)))


def quat_error_magnitude(q1: Tensor, q2: Tensor) -> Tensor:
    """Angle ``(...)`` between two rotations, in [0, pi] rad.

    A cone with its tip at equal rotations (gradient 0 there): in a loss use :func:`quat_angle_squared`.
    """
    difference = quat_mul(q1, quat_conjugate(q2))
    # vector_norm, not sqrt of a sum: its gradient at zero is zero
    return 2.0 * torch.atan2(torch.linalg.vector_norm(difference[..., :3], dim=-1), difference[..., 3].abs())


def quat_angle_squared(q1: Tensor, q2: Tensor) -> Tensor:
    """Squared angle ``(...)`` [rad^2] between two rotations, smooth but for the ridge at half a turn."""
    return quat_box_minus(q1, q2).square().sum(dim=-1)


def quat_slerp(q1: Tensor, q2: Tensor, fraction: Tensor | float) -> Tensor:
    """Interpolate from ``q1`` (fraction 0) to ``q2`` (fraction 1) at constant rate, the short way.

    Args:
        q1: ``(..., 4)``.
        q2: ``(..., 4)``.
        fraction: Scalar or ``(...)``.
    """
    if isinstance(fraction, Tensor):
        fraction = fraction.unsqueeze(-1)
    return quat_box_plus(q1, fraction * quat_box_minus(q2, q1))


def quat_unique(quat: Tensor) -> Tensor:
    """The one of ``quat`` and ``-quat`` ``(..., 4)`` whose w is not negative."""
    return torch.where(quat[..., 3:] < 0.0, -quat, quat)


def random_orientation(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Quaternions ``(*shape, 4)`` uniform over all rotations, on the device of the generator."""
    # four independent normal variables point into a uniform direction
    return normalize(torch.randn((*shape, 4), generator=generator, device=generator.device))


def _cross(a: Tensor, b: Tensor) -> Tensor:
    # linalg.cross broadcasts sizes but not numbers of dimensions
    return torch.linalg.cross(*torch.broadcast_tensors(a, b))
