"""How far robots are from their motion."""

from __future__ import annotations

import torch

from lab_core.env import Env
from lab_core.managers import SceneEntityCfg
from lab_core.math import quat_apply_inverse, quat_error_magnitude, yaw_quat
from lab_tasks.tracking.motion_target import KeyBodies, MotionTarget, key_poses, key_velocities

_STILL = 0.05
"""Horizontal speed of a foot of the motion up to which it stands [m/s]."""


def tracking_errors(
    env: Env, target: MotionTarget, keys: KeyBodies, feet: list[int], asset_cfg: SceneEntityCfg
) -> dict[str, torch.Tensor]:
    """Returns the errors (N,) of the present state by name.

    ``mpjpe_g``: mean distance of key bodies in the world [m]. ``mpjpe_l``: the same of positions relative to the root
    and its heading; ``mpjpe_r``: relative to the root and its orientation. ``root_xy``, ``root_z`` [m] and
    ``root_angle`` [rad]. ``joint_pos`` [rad], a mean over joints, and ``joint_vel`` [rad/s], a root mean square.
    ``foot_slip``: horizontal speed [m/s] of the key bodies ``feet`` that stand still in the motion, summed.

    Args:
        env: The environment.
        target: What the robots followed.
        keys: Key bodies; the first is the root.
        feet: Places among them.
        asset_cfg: The robot.
    """
    data = env.scene[asset_cfg.name].data
    pos, _ = key_poses(env, keys, asset_cfg)
    root = data.root_link_pose_w
    root_pos, root_quat = root[:, :3] - env.scene.env_origins, root[:, 3:]
    wanted_pos, wanted_quat = target.root_pose.split((3, 4), dim=1)

    def distance(own_frame: torch.Tensor, wanted_frame: torch.Tensor) -> torch.Tensor:
        own = _within(pos, root_pos, own_frame)
        return (own - _within(target.body_pos, wanted_pos, wanted_frame)).norm(dim=-1).mean(dim=1)

    speed = key_velocities(env, keys, asset_cfg)[0][:, feet, :2].norm(dim=-1)
    stands = target.body_lin_vel[:, feet, :2].norm(dim=-1) < _STILL
    return {
        "mpjpe_g": (pos - target.body_pos).norm(dim=-1).mean(dim=1),
        "mpjpe_l": distance(yaw_quat(root_quat), yaw_quat(wanted_quat)),
        "mpjpe_r": distance(root_quat, wanted_quat),
        "root_xy": (root_pos - wanted_pos)[:, :2].norm(dim=1),
        "root_z": (root_pos - wanted_pos)[:, 2].abs(),
        "root_angle": quat_error_magnitude(root_quat, wanted_quat),
        "joint_pos": (data.joint_pos - target.joint_pos).abs().mean(dim=1),
        "joint_vel": (data.joint_vel - target.joint_vel).square().mean(dim=1).sqrt(),
        "foot_slip": (speed * stands).sum(dim=1),
    }


def _within(pos: torch.Tensor, origin: torch.Tensor, quat: torch.Tensor) -> torch.Tensor:
    """Positions (N, B, 3) in a frame at ``origin`` (N, 3) with the orientation ``quat`` (N, 4)."""
    return quat_apply_inverse(quat.unsqueeze(1).expand(*pos.shape[:2], 4), pos - origin.unsqueeze(1))
