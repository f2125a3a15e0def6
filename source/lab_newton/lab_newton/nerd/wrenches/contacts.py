"""Forces in contacts that explain a motion."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lab_core.math import quat_apply

_RELAXATION = 1.6
PROXIMAL = 1e-3
"""Weight of what keeps forces near those of the step before, of that of their effect."""
STEPS = 3
_PENALTY = 0.1


@dataclass(frozen=True)
class ContactPoints:
    """C places per state in which the robot may be touched, world frame."""

    active: Tensor
    """(..., C) bool, whether there is a contact that can carry force."""
    part: Tensor
    """(..., C) int64, which part is touched: 0 a free root, then one per joint."""
    point: Tensor
    """(..., C, 3) [m], in the frame that positions of the root are in."""
    normal: Tensor
    """(..., C, 3) unit vector, towards the robot."""

    @classmethod
    def from_tokens(cls, tokens: Tensor, root_pose: Tensor, gap: float = 0.0) -> ContactPoints:
        """Returns the contacts of tokens (..., C, 15), see :class:`lab_core.sensors.ContactSetData`.

        Those between two parts of the robot appear twice, and each as if the world touched it.

        Args:
            tokens: Of the beginning of the step.
            root_pose: (..., 7) link frame of the root.
            gap: Distance of surfaces up to which they press on each other [m].
        """
        root = root_pose[..., None, :]
        rotation = root[..., 3:7].expand(*tokens.shape[:-1], 4)
        point = root[..., :3] + quat_apply(rotation, tokens[..., 2:5].to(root.dtype))
        normal = quat_apply(rotation, tokens[..., 5:8].to(root.dtype))
        active = (tokens[..., 0] > 0.5) & (tokens[..., 11] <= gap)
        return cls(active, tokens[..., 1].to(torch.int64), point, normal)


def solve_contact_forces(
    response: Tensor, drift: Tensor, normal: Tensor, friction: Tensor | float, iterations: int = 300
) -> Tensor:
    """Returns the forces f (..., C, 3) [N] in friction cones that minimise 1/2 f^T A f + f^T b, world frame.

    In three proximal steps from none: each adds 1e-3 * 1/2 sum_c tr(A_cc)/3 |f_c - g_c|^2 with the forces g of the step
    before, so that among forces of the same effect small ones are found, and soon, while the effect is kept. A step is
    ADMM (Boyd et al. 2011, chapter 3.4.3: over-relaxed by 1.6): what it starts from, the gradient there and the inverse
    of the matrix, scaled per contact, are float64; its iterations, each a product and a projection on the cones, find
    what is missing in float32. Their number does not depend on the values.

    Args:
        response: (..., C, 3, C, 3) A: acceleration of each contact's point by a force in each [1/kg]; 0 of contacts
            that carry none, which get no force.
        drift: (..., C, 3) b: the acceleration that the forces have to undo [m/s^2].
        normal: (..., C, 3) axes of the cones.
        friction: Coefficient of each contact, (..., C) or one number.
        iterations: Number of iterations in each step.
    """
    contacts = normal.shape[-2]
    rows = 3 * contacts
    own = torch.diagonal(response.flatten(-2).flatten(-3, -2), dim1=-2, dim2=-1).unflatten(-1, (contacts, 3)).mean(-1)
    scale = torch.where(own > 0.0, own, 1.0).rsqrt()[..., None]  # (..., C, 1): keeps the cones what they are
    scaled = scale[..., None, None] * response * scale[..., None, None, :, :]
    matrix = scaled.flatten(-2).flatten(-3, -2)
    unit = torch.eye(rows, dtype=matrix.dtype, device=matrix.device)
    inverse = torch.linalg.inv_ex(matrix + (PROXIMAL + _PENALTY) * unit)[0]
    product = (_PENALTY * inverse).float()
    slope = torch.as_tensor(friction, dtype=normal.dtype, device=normal.device).expand(normal.shape[:-1])[..., None]
    axis, slopes, target = normal.float(), slope.float(), (scale * drift).flatten(-2)
    force = torch.zeros_like(target)
    dual = force.float()
    for _ in range(STEPS):
        gradient = (matrix @ force[..., None])[..., 0] + target
        constant = -(inverse @ gradient[..., None])[..., 0].float()
        start, step = force.float(), torch.zeros_like(dual)
        for _ in range(iterations):
            free = constant + (product @ (step - dual)[..., None])[..., 0]
            wanted = _RELAXATION * free + (1.0 - _RELAXATION) * step + dual
            inside = _project((start + wanted).unflatten(-1, (contacts, 3)), axis, slopes).flatten(-2)
            step = inside - start
            dual = wanted - step
        force = force + step
    return scale * _project(force.unflatten(-1, (contacts, 3)), normal, slope)


def _project(force: Tensor, axis: Tensor, slope: Tensor) -> Tensor:
    """Nearest forces in cones |tangential| <= slope * normal."""
    along = (force * axis).sum(-1, keepdim=True)
    across = force - along * axis
    length = across.norm(dim=-1, keepdim=True)
    on_cone = ((along + slope * length) / (1.0 + slope.square())).clamp(min=0.0)
    direction = across / length.clamp(min=1e-20)
    edge = on_cone * (axis + slope * direction)
    return torch.where(length <= slope * along, force, edge)
