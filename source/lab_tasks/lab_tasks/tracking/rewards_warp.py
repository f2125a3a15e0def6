"""Twins of the rewards and terminations of motion tracking, whose torch terms say what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import warp as wp

from lab_core.managers import SceneEntityCfg
from lab_core.mdp import SceneSensorCfg
from lab_tasks.tracking import rewards, terminations
from lab_tasks.tracking import rewards_kernels as kernels
from lab_tasks.tracking.motion_command_warp import bits, find_motion
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.launches import Kernel, per_env
from lab_warp.twins import twin_of

_ROBOT = SceneEntityCfg("robot")


def _likeness(original: Any, kernel: Kernel) -> None:
    """Registers the twin of a reward that compares key bodies."""

    @twin_of(original)
    def twin(
        env: ManagerBasedWarpEnv, out: wp.array, command_name: str, std: float, asset_cfg: SceneEntityCfg = _ROBOT
    ) -> None:
        per_env(env, kernel, out, find_motion(env, command_name).bodies(asset_cfg), std)


for _original, _kernel in (
    (rewards.anchor_pos_exp, kernels.anchor_pos),
    (rewards.anchor_ori_exp, kernels.anchor_ori),
    (rewards.body_pos_exp, kernels.body_pos),
    (rewards.body_ori_exp, kernels.body_ori),
    (rewards.body_lin_vel_exp, kernels.body_lin_vel),
    (rewards.body_ang_vel_exp, kernels.body_ang_vel),
):
    _likeness(_original, _kernel)


@twin_of(rewards.self_collision)
def self_collision(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg, threshold: float) -> None:
    forces = rewards.touches_of_itself(env, sensor_cfg).warp.force_matrix_w_history
    per_env(env, kernels.self_collision, out, forces, threshold)


# Terminations -----------------------------------------------------------------------------------------------------


@twin_of(terminations.bad_anchor_height)
def bad_anchor_height(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    command = find_motion(env, command_name)
    per_env(env, kernels.bad_heights, out, command.bodies(asset_cfg), bits([command.keys.anchor]), threshold)


@twin_of(terminations.bad_anchor_tilt)
def bad_anchor_tilt(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    per_env(env, kernels.bad_tilt, out, find_motion(env, command_name).bodies(asset_cfg), threshold)


@twin_of(terminations.bad_body_heights)
def bad_body_heights(
    env: ManagerBasedWarpEnv,
    out: wp.array,
    command_name: str,
    body_names: Sequence[str],
    threshold: float,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    command = find_motion(env, command_name)
    chosen = bits(command.keys.find(body_names))
    per_env(env, kernels.bad_heights, out, command.bodies(asset_cfg), chosen, threshold)
