"""Heading of a body: the direction of its x axis in the horizontal plane."""

from __future__ import annotations

import torch
from torch import Tensor

from lab_core.math.angles import wrap_to_pi

_NO_HEADING = 0.05
_FULL_HEADING = 0.2


def heading(quat: Tensor, previous: Tensor | None = None) -> Tensor:
    """Yaw ``(...)`` [rad] in [-pi, pi] of the x axis of a unit quaternion ``(..., 4)``, world z up.

    The heading is undefined where the x axis is vertical (pitch +-90 degrees), and its gradient grows without bound
    on the way there. A weight therefore rises smoothly from 0 to 1 while the horizontal length of the x axis goes from
    0.05 to 0.2 (pitch 87 to 78 degrees).

    Args:
        quat: Orientation.
        previous: Yaw ``(...)`` of the step before. If given, the result moves from it towards the heading by that
            weight, and below 0.05 is ``previous``. If not, the value is always the heading and the weight scales its
            gradient.
    """
    x, y, z, w = quat.unbind(-1)
    forward_x = 1.0 - 2.0 * (y * y + z * z)
    forward_y = 2.0 * (x * y + z * w)
    squared_length = forward_x.square() + forward_y.square()
    defined = squared_length > _NO_HEADING**2
    length = torch.sqrt(torch.where(defined, squared_length, _NO_HEADING**2))
    ramp = ((length - _NO_HEADING) / (_FULL_HEADING - _NO_HEADING)).clamp(max=1.0)
    weight = ramp.square() * (3.0 - 2.0 * ramp)

    safe_yaw = torch.atan2(torch.where(defined, forward_y, 0.0), torch.where(defined, forward_x, 1.0))
    if previous is not None:
        previous = previous.detach()
        return wrap_to_pi(previous + weight * wrap_to_pi(safe_yaw - previous))
    # same value, scaled gradient
    yaw = torch.atan2(forward_y.detach(), forward_x.detach())
    scaled = weight.detach() * safe_yaw
    return yaw + (scaled - scaled.detach())


def yaw_quat(quat: Tensor, previous: Tensor | None = None) -> Tensor:
    """Rotation ``(..., 4)`` about the world's z axis by :func:`heading`, to which the arguments are passed."""
    half = 0.5 * heading(quat, previous)
    zero = torch.zeros_like(half)
    return torch.stack((zero, zero, torch.sin(half), torch.cos(half)), dim=-1)
