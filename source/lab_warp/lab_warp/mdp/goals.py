"""Twins of :mod:`lab_core.mdp.goals`, which says what they return."""

from __future__ import annotations

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError
from lab_warp.env import ManagerBasedWarpEnv, OrientationGoalArrays
from lab_warp.launches import per_env
from lab_warp.mdp import goals_kernels as kernels
from lab_warp.twins import twin_of

_OBJECT = SceneEntityCfg("object")


@twin_of(mdp.goal_quat_diff)
def goal_quat_diff(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _OBJECT
) -> None:
    per_env(env, kernels.quaternion_from_goal, out, _pose(env, asset_cfg), _goal(env, command_name))


@twin_of(mdp.track_pos_l2)
def track_pos_l2(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _OBJECT
) -> None:
    per_env(env, kernels.distance, out, _pose(env, asset_cfg), _goal(env, command_name), env.warp.env_origins)


@twin_of(mdp.track_orientation_inv_l2)
def track_orientation_inv_l2(
    env: ManagerBasedWarpEnv,
    out: wp.array,
    command_name: str,
    rot_eps: float = 0.1,
    asset_cfg: SceneEntityCfg = _OBJECT,
) -> None:
    per_env(env, kernels.inverse_angle, out, _pose(env, asset_cfg), _goal(env, command_name), rot_eps)


@twin_of(mdp.success_bonus)
def success_bonus(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _OBJECT
) -> None:
    command = env.command_manager.get_term(command_name)
    goal = command.warp
    if not isinstance(goal, OrientationGoalArrays):
        raise TermError(
            f"success_bonus needs a goal of an orientation, {command_name!r} is a {type(command).__name__}."
        )
    per_env(env, kernels.reached, out, _pose(env, asset_cfg), goal.command, goal.tolerance, goal.is_given)


@twin_of(mdp.object_away_from_goal)
def object_away_from_goal(
    env: ManagerBasedWarpEnv,
    out: wp.array,
    threshold: float,
    command_name: str,
    asset_cfg: SceneEntityCfg = _OBJECT,
) -> None:
    inputs = (_pose(env, asset_cfg), _goal(env, command_name), env.warp.env_origins, threshold)
    per_env(env, kernels.is_away, out, *inputs)


def _pose(env: ManagerBasedWarpEnv, asset_cfg: SceneEntityCfg) -> wp.array:
    return env.scene[asset_cfg.name].data.warp.root_link_pose_w


def _goal(env: ManagerBasedWarpEnv, command_name: str) -> wp.array:
    return env.command_manager.get_term(command_name).warp.command
