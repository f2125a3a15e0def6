"""Twins of :mod:`lab_core.mdp.rewards` without contacts; there is said what they return."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_core.mdp import SceneSensorCfg, sensor_data
from lab_core.sensors import RayCasterData
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.mdp.functions import at_least_zero, square, wrap_to_pi
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_ROBOT = SceneEntityCfg("robot")

# Episode ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.is_alive)
def is_alive(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    _launch(env, _where, out, env.termination_manager.warp.terminated, 0.0, 1.0)


@twin_of(mdp.is_terminated)
def is_terminated(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    _launch(env, _where, out, env.termination_manager.warp.terminated, 1.0, 0.0)


@twin_of(mdp.terminated_penalty)
def terminated_penalty(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    _launch(env, _where, out, env.termination_manager.warp.terminated, 1.0 / env.step_dt, 0.0)


# Joints -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.joint_torques_l2)
def joint_torques_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _sum_squares, out, env.scene[asset_cfg.name].data.warp.applied_effort, joint_index(asset_cfg))


@twin_of(mdp.joint_vel_l1)
def joint_vel_l1(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _sum_magnitudes, out, env.scene[asset_cfg.name].data.warp.joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_vel_l2)
def joint_vel_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _sum_squares, out, env.scene[asset_cfg.name].data.warp.joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_acc_l2)
def joint_acc_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _sum_squares, out, env.scene[asset_cfg.name].data.warp.joint_acc, joint_index(asset_cfg))


@twin_of(mdp.joint_deviation_l1)
def joint_deviation_l1(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    _launch(env, _sum_distances, out, data.joint_pos, data.default_joint_pos, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_limits)
def joint_pos_limits(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    _launch(env, _sum_excesses, out, data.joint_pos, data.soft_joint_pos_limits, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_target_l2)
def joint_pos_target_l2(env: WarpEnv, out: wp.array, target: float, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    position = env.scene[asset_cfg.name].data.warp.joint_pos
    _launch(env, _sum_squared_angles, out, position, target, joint_index(asset_cfg))


# Actions ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.action_rate_l2)
def action_rate_l2(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    actions = env.action_manager.warp
    _launch(env, _action_rate, out, actions.action, actions.prev_action)


@twin_of(mdp.action_l2)
def action_l2(env: ManagerBasedWarpEnv, out: wp.array) -> None:
    _launch(env, _action, out, env.action_manager.warp.action)


# Root -------------------------------------------------------------------------------------------------------------


@twin_of(mdp.lin_vel_z_l2)
def lin_vel_z_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _squared_z, out, env.scene[asset_cfg.name].data.warp.root_com_lin_vel_b)


@twin_of(mdp.ang_vel_xy_l2)
def ang_vel_xy_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _squared_xy, out, env.scene[asset_cfg.name].data.warp.root_ang_vel_b)


@twin_of(mdp.flat_orientation_l2)
def flat_orientation_l2(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _squared_xy, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b)


@twin_of(mdp.base_height_l2)
def base_height_l2(
    env: WarpEnv,
    out: wp.array,
    target_height: float,
    asset_cfg: SceneEntityCfg = _ROBOT,
    sensor_cfg: SceneSensorCfg | None = None,
) -> None:
    hits = None if sensor_cfg is None else sensor_data(env, sensor_cfg, RayCasterData).warp.ray_hits_w
    pose = env.scene[asset_cfg.name].data.warp.root_link_pose_w
    _launch(env, _height_error, out, pose, env.warp.env_origins, hits, target_height)


# Commands ---------------------------------------------------------------------------------------------------------


@twin_of(mdp.track_lin_vel_xy_exp)
def track_lin_vel_xy_exp(
    env: ManagerBasedWarpEnv, out: wp.array, std: float, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    command = env.command_manager.get_term(command_name).warp.command
    _launch(env, _track_xy, out, command, env.scene[asset_cfg.name].data.warp.root_com_lin_vel_b, std**2)


@twin_of(mdp.track_ang_vel_z_exp)
def track_ang_vel_z_exp(
    env: ManagerBasedWarpEnv, out: wp.array, std: float, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    command = env.command_manager.get_term(command_name).warp.command
    _launch(env, _track_z, out, command, env.scene[asset_cfg.name].data.warp.root_ang_vel_b, std**2)


# Kernels, one thread per environment ------------------------------------------------------------------------------


def _launch(env: WarpEnv, kernel: wp.Kernel, out: wp.array, *inputs: Any) -> None:
    wp.launch(kernel, dim=env.num_envs, inputs=inputs, outputs=[out], device=env.wp_device)


@wp.kernel
def _where(flags: wp.array[wp.bool], value: wp.float32, other: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = wp.where(flags[env], value, other)


@wp.kernel
def _sum_squares(values: wp.array2d[wp.float32], ids: wp.array[wp.int32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += square(values[env, ids[i]])
    out[env] = total


@wp.kernel
def _sum_magnitudes(values: wp.array2d[wp.float32], ids: wp.array[wp.int32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += wp.abs(values[env, ids[i]])
    out[env] = total


@wp.kernel
def _sum_distances(
    values: wp.array2d[wp.float32],
    references: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += wp.abs(values[env, ids[i]] - references[env, ids[i]])
    out[env] = total


@wp.kernel
def _sum_excesses(
    positions: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        position = positions[env, ids[i]]
        low_high = limits[env, ids[i]]
        total += at_least_zero(low_high[0] - position) + at_least_zero(position - low_high[1])
    out[env] = total


@wp.kernel
def _sum_squared_angles(
    positions: wp.array2d[wp.float32], target: wp.float32, ids: wp.array[wp.int32], out: wp.array[wp.float32]
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += square(wrap_to_pi(positions[env, ids[i]]) - target)
    out[env] = total


@wp.kernel
def _action(action: wp.array2d[wp.float32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for column in range(action.shape[1]):
        total += square(action[env, column])
    out[env] = total


@wp.kernel
def _action_rate(action: wp.array2d[wp.float32], prev_action: wp.array2d[wp.float32], out: wp.array[wp.float32]):
    env = wp.tid()
    total = wp.float32(0.0)
    for column in range(action.shape[1]):
        total += square(action[env, column] - prev_action[env, column])
    out[env] = total


@wp.kernel
def _squared_z(vectors: wp.array[wp.vec3], out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = square(vectors[env][2])


@wp.kernel
def _squared_xy(vectors: wp.array[wp.vec3], out: wp.array[wp.float32]):
    env = wp.tid()
    vector = vectors[env]
    out[env] = square(vector[0]) + square(vector[1])


@wp.kernel
def _height_error(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    hits: wp.array2d[wp.vec3],
    target: wp.float32,
    out: wp.array[wp.float32],
):
    """``hits`` is empty without a ray caster."""
    env = wp.tid()
    total = wp.float32(0.0)
    count = wp.int32(0)
    for ray in range(hits.shape[1]):
        height = hits[env, ray][2]
        if wp.isfinite(height):
            total += height
            count += 1
    ground = origins[env][2]
    if count > 0:
        ground = total / wp.float32(count)
    out[env] = square(poses[env][2] - ground - target)


@wp.kernel
def _track_xy(
    command: wp.array2d[wp.float32], velocities: wp.array[wp.vec3], variance: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    velocity = velocities[env]
    error = square(command[env, 0] - velocity[0]) + square(command[env, 1] - velocity[1])
    out[env] = wp.exp(-error / variance)


@wp.kernel
def _track_z(
    command: wp.array2d[wp.float32], velocities: wp.array[wp.vec3], variance: wp.float32, out: wp.array[wp.float32]
):
    env = wp.tid()
    out[env] = wp.exp(-square(command[env, 2] - velocities[env][2]) / variance)
