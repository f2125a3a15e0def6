"""What a motion asks of the robot in a frame, and what its key bodies do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.env import Env, ManagerBasedEnv
from lab_core.kinematics import BodyStates
from lab_core.managers import SceneEntityCfg, TermError
from lab_core.math import link_lin_vel_from_com
from lab_tasks.motions import MotionFrames


@dataclass(frozen=True)
class MotionTarget:
    """K frames: J joints and B key bodies. Positions are relative to the environment's origin, orientations xyzw,
    velocities those of the links' origins in the world frame."""

    joint_pos: torch.Tensor
    """(K, J) [rad]."""
    joint_vel: torch.Tensor
    """(K, J) [rad/s]."""
    root_pose: torch.Tensor
    """(K, 7) [m]."""
    root_vel: torch.Tensor
    """(K, 6) [m/s, rad/s]."""
    body_pos: torch.Tensor
    """(K, B, 3) [m]."""
    body_quat: torch.Tensor
    """(K, B, 4)."""
    body_lin_vel: torch.Tensor
    """(K, B, 3) [m/s]."""
    body_ang_vel: torch.Tensor
    """(K, B, 3) [rad/s]."""

    @staticmethod
    def pack(frames: MotionFrames, bodies: BodyStates) -> torch.Tensor:
        """Returns rows (F, D) that :meth:`unpack` takes apart; positions and velocities of the joints come first."""
        parts = [frames.joint_pos, frames.joint_vel]
        parts += [frames.root_pos_w, frames.root_quat_w, frames.root_lin_vel_w, frames.root_ang_vel_w]
        parts += [bodies.pose[..., :3], bodies.pose[..., 3:], bodies.link_vel[..., :3], bodies.link_vel[..., 3:]]
        return torch.cat([part.flatten(start_dim=1) for part in parts], dim=1)

    @classmethod
    def unpack(cls, rows: torch.Tensor, joints: int, bodies: int) -> MotionTarget:
        """Returns views of ``rows`` (K, D)."""
        widths = (joints, joints, 7, 6, 3 * bodies, 4 * bodies, 3 * bodies, 3 * bodies)
        *whole, pos, quat, lin, ang = rows.split(widths, dim=1)
        return cls(*whole, *(part.unflatten(1, (bodies, -1)) for part in (pos, quat, lin, ang)))


@dataclass(frozen=True)
class KeyBodies:
    """The bodies of a robot that a motion is compared at."""

    names: tuple[str, ...]
    ids: torch.Tensor
    """(B,) int64, columns of the robot's buffers."""
    anchor: int
    """Place of the anchor among the key bodies."""
    anchor_id: int
    """Column of the anchor in the robot's buffers."""

    def find(self, names: Sequence[str]) -> list[int]:
        """Returns places among the key bodies.

        Raises:
            TermError: one is no key body.
        """
        if unknown := [name for name in names if name not in self.names]:
            raise TermError(f"No key bodies of the motion: {', '.join(unknown)}; there are {', '.join(self.names)}.")
        return [self.names.index(name) for name in names]


def motion_command(env: ManagerBasedEnv, command_name: str) -> Any:
    """Returns what has a ``target`` and ``keys``: a motion command, or its reference in imagination.

    Raises:
        TermError: the command is another one.
    """
    command = env.command_manager.get_term(command_name)
    if not isinstance(getattr(command, "target", None), MotionTarget):
        raise TermError(f"Command {command_name!r} must be of a motion, got {type(command).__name__}.")
    return command


def key_poses(env: Env, keys: KeyBodies, asset_cfg: SceneEntityCfg) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns positions (N, B, 3) relative to the environment's origin and orientations (N, B, 4)."""
    pose = env.scene[asset_cfg.name].data.body_link_pose_w.index_select(1, keys.ids)
    return pose[..., :3] - env.scene.env_origins[:, None], pose[..., 3:]


def anchor_pose(env: Env, keys: KeyBodies, asset_cfg: SceneEntityCfg) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns position (N, 3) and orientation (N, 4) of the anchor alone, as :func:`key_poses`."""
    pose = env.scene[asset_cfg.name].data.link_pose_w(keys.anchor_id)
    return pose[:, :3] - env.scene.env_origins, pose[:, 3:]


def key_velocities(env: Env, keys: KeyBodies, asset_cfg: SceneEntityCfg) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns velocities (N, B, 3) of the links' origins and angular velocities (N, B, 3).

    Those of the centres of mass would differ from a motion's as soon as these are randomised.
    """
    data = env.scene[asset_cfg.name].data
    lin, ang = data.body_com_vel_w.index_select(1, keys.ids).split(3, dim=-1)
    quat = data.body_link_pose_w.index_select(1, keys.ids)[..., 3:]
    com = data.body_com_pos_b.index_select(1, keys.ids)
    return link_lin_vel_from_com(lin, ang, quat, com), ang
