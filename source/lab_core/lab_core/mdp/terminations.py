"""Terminations: ``func(env, ...) -> (N,) bool``."""

from __future__ import annotations

from typing import Any

import torch

from lab_core.config import Interval, NonNegative, Positive
from lab_core.env import Env, ManagerBasedEnv
from lab_core.managers import SceneEntityCfg, TermError, declare
from lab_core.mdp.scene_sensor_cfg import SceneSensorCfg, peak_contact_force, recently_touched

_ROBOT = SceneEntityCfg("robot")


@declare(differentiable=True)
def time_out(env: Env) -> torch.Tensor:
    """The episode has lasted its longest. Configure it with ``time_out=True``."""
    return env.episode_length_buf >= env.max_episode_length


@declare(differentiable=True)
def joint_pos_out_of_manual_limit(env: Env, bounds: Interval, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """A joint position is outside ``bounds`` [rad or m]."""
    position = env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids]
    return ((position < bounds[0]) | (position > bounds[1])).any(dim=1)


@declare(differentiable=True)
def joint_pos_out_of_limit(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """A joint position is outside its soft limits."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    low, high = data.soft_joint_pos_limits[:, ids].unbind(dim=-1)
    position = data.joint_pos[:, ids]
    return ((position < low) | (position > high)).any(dim=1)


@declare(differentiable=True)
def root_height_below_minimum(env: Env, minimum_height: float, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """The root link is lower than ``minimum_height`` [m] above world zero, for flat ground."""
    return env.scene[asset_cfg.name].data.root_link_pose_w[:, 2] < minimum_height


@declare(differentiable=True)
def bad_orientation(env: Env, limit_angle: Positive, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """The root-link z axis is more than ``limit_angle`` [rad] away from up."""
    cosine = (-env.scene[asset_cfg.name].data.projected_gravity_b[:, 2]).clamp(-1.0, 1.0)
    return torch.acos(cosine) > limit_angle


def illegal_contact(env: Env, threshold: NonNegative, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """A body was touched with more than ``threshold`` [N] at some time in the sensor's history."""
    return (peak_contact_force(env, sensor_cfg) > threshold).any(dim=1)


def illegal_touch(env: Env, sensor_cfg: SceneSensorCfg) -> torch.Tensor:
    """A body touched something at some time in the history of a gap sensor; see :func:`illegal_contact`."""
    return recently_touched(env, sensor_cfg).any(dim=1)


def terrain_out_of_bounds(env: Env, distance_buffer: float = 3.0, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """The root link is nearer than ``distance_buffer`` [m] to the edge of the terrain, or beyond it; never on a plane.

    The edge is that of the generated ground with its border. Configure it with ``time_out=True``.
    """
    if env.physics.terrain is None:
        return torch.zeros_like(env.reset_buf)
    x, y = env.scene[asset_cfg.name].data.root_link_pose_w[:, :2].abs().unbind(dim=1)
    length, width = env.physics.terrain.size
    return (x > 0.5 * length - distance_buffer) | (y > 0.5 * width - distance_buffer)


@declare(differentiable=True)
def clip_ended(env: ManagerBasedEnv, command_name: str) -> torch.Tensor:
    """The policy was shown the last frame of its clip in the step, so no other one follows. Configure it with
    ``time_out=True``: the motion would have gone on."""
    command: Any = env.command_manager.get_term(command_name)
    if not hasattr(command, "at_end"):
        raise TermError(f"clip_ended needs a clip command, and {command_name!r} is a {type(command).__name__}.")
    return command.at_end
