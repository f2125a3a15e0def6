"""Twins of :mod:`lab_core.mdp.terminations` without contacts; there is said what they return."""

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError
from lab_warp.env import ClipCommandArrays, ManagerBasedWarpEnv, WarpEnv
from lab_warp.launches import per_env
from lab_warp.mdp import terminations_kernels as kernels
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

_ROBOT = SceneEntityCfg("robot")


@twin_of(mdp.time_out)
def time_out(env: WarpEnv, out: wp.array) -> None:
    per_env(env, kernels.time_out, out, env.warp.episode_length, env.max_episode_length)


@twin_of(mdp.clip_ended)
def clip_ended(env: ManagerBasedWarpEnv, out: wp.array, command_name: str) -> None:
    command = env.command_manager.get_term(command_name)
    if not isinstance(command.warp, ClipCommandArrays):
        raise TermError(f"clip_ended needs a clip command, and {command_name!r} is a {type(command).__name__}.")
    per_env(env, kernels.clip_ended, out, command.warp.clip, command.warp.frame, command.warp.clip_lengths)


@twin_of(mdp.joint_pos_out_of_manual_limit)
def joint_pos_out_of_manual_limit(
    env: WarpEnv, out: wp.array, bounds: tuple[float, float], asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    position = env.scene[asset_cfg.name].data.warp.joint_pos
    per_env(env, kernels.out_of_bounds, out, position, bounds[0], bounds[1], joint_index(asset_cfg))


@twin_of(mdp.joint_pos_out_of_limit)
def joint_pos_out_of_limit(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    per_env(env, kernels.out_of_limits, out, data.joint_pos, data.soft_joint_pos_limits, joint_index(asset_cfg))


@twin_of(mdp.root_height_below_minimum)
def root_height_below_minimum(
    env: WarpEnv, out: wp.array, minimum_height: float, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    per_env(env, kernels.below, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, minimum_height)


@twin_of(mdp.bad_orientation)
def bad_orientation(env: WarpEnv, out: wp.array, limit_angle: float, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.tilted, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b, limit_angle)


@twin_of(mdp.terrain_out_of_bounds)
def terrain_out_of_bounds(
    env: WarpEnv, out: wp.array, distance_buffer: float = 3.0, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    if env.physics.terrain is None:
        out.zero_()
        return
    length, width = env.physics.terrain.size
    pose = env.scene[asset_cfg.name].data.warp.root_link_pose_w
    per_env(env, kernels.outside_terrain, out, pose, 0.5 * length - distance_buffer, 0.5 * width - distance_buffer)
