"""Motions relative to where the robot is: the errors that stay small while it drifts."""

from __future__ import annotations

import torch

from lab_core.math import quat_apply, quat_conjugate, quat_mul, yaw_quat
from lab_tasks.tracking.motion_target import MotionTarget


def relative_targets(
    target: MotionTarget, anchor: int, anchor_pos: torch.Tensor, anchor_quat: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Moves the bodies of a motion horizontally, and turns them about the vertical, so that its anchor meets the
    robot's (BeyondMimic, arXiv 2508.08241).

    Gradients flow through the position and the yaw of the robot's anchor; that of the yaw fades out where the yaw of
    the difference of both orientations is hardly defined, see :func:`lab_core.math.heading`.

    Args:
        target: Of the motion, K frames.
        anchor: Place of the anchor among the key bodies.
        anchor_pos: (K, 3) of the robot [m], relative to the environment's origin.
        anchor_quat: (K, 4) of the robot.

    Returns:
        Positions (K, B, 3) [m] and orientations (K, B, 4).
    """
    from_pos, from_quat = target.body_pos[:, anchor], target.body_quat[:, anchor]
    turn = yaw_quat(quat_mul(anchor_quat, quat_conjugate(from_quat))).unsqueeze(1).expand_as(target.body_quat)
    to_pos = torch.cat((anchor_pos[:, :2], from_pos[:, 2:]), dim=1)
    arms = (target.body_pos - from_pos.unsqueeze(1)).to(turn.dtype)
    pos = to_pos.unsqueeze(1) + quat_apply(turn, arms)
    return pos, quat_mul(turn, target.body_quat)
