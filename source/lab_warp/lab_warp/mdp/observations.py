"""Twins of :mod:`lab_core.mdp.observations`, which says what they return."""

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
from lab_core.sensors import ImuData, JointWrenchData, RayCasterData
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.mdp.functions import normalized_position
from lab_warp.twins import twin_of
from lab_warp.views import body_index, joint_index

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_ROBOT = SceneEntityCfg("robot")

# Root -------------------------------------------------------------------------------------------------------------


@twin_of(mdp.base_pos_z)
def base_pos_z(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _pose_columns, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, 2)


@twin_of(mdp.base_lin_vel)
def base_lin_vel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _vectors, out, env.scene[asset_cfg.name].data.warp.root_com_lin_vel_b)


@twin_of(mdp.base_ang_vel)
def base_ang_vel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _vectors, out, env.scene[asset_cfg.name].data.warp.root_ang_vel_b)


@twin_of(mdp.projected_gravity)
def projected_gravity(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _vectors, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b)


@twin_of(mdp.root_pos_w)
def root_pos_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _relative_position, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, env.warp.env_origins)


@twin_of(mdp.root_quat_w)
def root_quat_w(
    env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT, make_quat_unique: bool = False
) -> None:
    _launch(env, _quaternion, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, make_quat_unique)


@twin_of(mdp.root_lin_vel_w)
def root_lin_vel_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _spatial_columns, out, env.scene[asset_cfg.name].data.warp.root_com_vel_w, 0)


@twin_of(mdp.root_ang_vel_w)
def root_ang_vel_w(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _spatial_columns, out, env.scene[asset_cfg.name].data.warp.root_com_vel_w, 3)


# Joints -----------------------------------------------------------------------------------------------------------


@twin_of(mdp.joint_pos)
def joint_pos(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _gather, out, env.scene[asset_cfg.name].data.warp.joint_pos, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_rel)
def joint_pos_rel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    _launch(env, _gather_difference, out, data.joint_pos, data.default_joint_pos, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_limit_normalized)
def joint_pos_limit_normalized(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    _launch(env, _gather_normalized, out, data.joint_pos, data.soft_joint_pos_limits, joint_index(asset_cfg))


@twin_of(mdp.joint_vel)
def joint_vel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _gather, out, env.scene[asset_cfg.name].data.warp.joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_vel_rel)
def joint_vel_rel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    _launch(env, _gather_difference, out, data.joint_vel, data.default_joint_vel, joint_index(asset_cfg))


@twin_of(mdp.joint_effort)
def joint_effort(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _gather, out, env.scene[asset_cfg.name].data.warp.applied_effort, joint_index(asset_cfg))


# Sensors ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.height_scan)
def height_scan(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg, offset: float = 0.5) -> None:
    rays = sensor_data(env, sensor_cfg, RayCasterData).warp
    _launch(env, _height_scan, out, rays.pos_w, rays.ray_hits_w, offset)


@twin_of(mdp.body_incoming_wrench)
def body_incoming_wrench(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    wrenches = sensor_data(env, sensor_cfg, JointWrenchData).warp.wrench_b
    _launch(env, _gather_spatial, out, wrenches, body_index(sensor_cfg))


@twin_of(mdp.imu_ang_vel)
def imu_ang_vel(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    _launch(env, _vectors, out, sensor_data(env, sensor_cfg, ImuData).warp.ang_vel_b)


@twin_of(mdp.imu_lin_acc)
def imu_lin_acc(env: WarpEnv, out: wp.array, sensor_cfg: SceneSensorCfg) -> None:
    _launch(env, _vectors, out, sensor_data(env, sensor_cfg, ImuData).warp.lin_acc_b)


# Actions, commands, time ------------------------------------------------------------------------------------------


@twin_of(mdp.last_action)
def last_action(env: ManagerBasedWarpEnv, out: wp.array, action_name: str | None = None) -> None:
    actions = env.action_manager
    action = actions.warp.action if action_name is None else actions.get_term(action_name).warp.raw_actions
    _launch(env, _copy, out, action)


@twin_of(mdp.generated_commands)
def generated_commands(env: ManagerBasedWarpEnv, out: wp.array, command_name: str) -> None:
    _launch(env, _copy, out, env.command_manager.get_term(command_name).warp.command)


@twin_of(mdp.current_time_s)
def current_time_s(env: WarpEnv, out: wp.array) -> None:
    _launch(env, _current_time, out, env.warp.episode_length, env.step_dt)


@twin_of(mdp.remaining_time_s)
def remaining_time_s(env: WarpEnv, out: wp.array) -> None:
    _launch(env, _remaining_time, out, env.warp.episode_length, env.step_dt, env.max_episode_length_s)


# Kernels, one thread per element -----------------------------------------------------------------------------------


def _launch(env: WarpEnv, kernel: wp.Kernel, out: wp.array, *inputs: Any) -> None:
    wp.launch(kernel, dim=out.shape, inputs=inputs, outputs=[out], device=env.wp_device)


@wp.kernel
def _copy(values: wp.array2d[wp.float32], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = values[env, column]


@wp.kernel
def _vectors(vectors: wp.array[wp.vec3], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = vectors[env][column]


@wp.kernel
def _spatial_columns(vectors: wp.array[wp.spatial_vector], first: wp.int32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = vectors[env][first + column]


@wp.kernel
def _pose_columns(poses: wp.array[wp.transform], first: wp.int32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = poses[env][first + column]


@wp.kernel
def _relative_position(poses: wp.array[wp.transform], origins: wp.array[wp.vec3], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = poses[env][column] - origins[env][column]


@wp.kernel
def _quaternion(poses: wp.array[wp.transform], make_unique: wp.bool, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    value = poses[env][3 + column]
    if make_unique and poses[env][6] < 0.0:
        value = -value
    out[env, column] = value


@wp.kernel
def _gather(values: wp.array2d[wp.float32], ids: wp.array[wp.int32], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = values[env, ids[column]]


@wp.kernel
def _gather_difference(
    values: wp.array2d[wp.float32],
    defaults: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    out: wp.array2d[wp.float32],
):
    env, column = wp.tid()
    joint = ids[column]
    out[env, column] = values[env, joint] - defaults[env, joint]


@wp.kernel
def _gather_normalized(
    positions: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    ids: wp.array[wp.int32],
    out: wp.array2d[wp.float32],
):
    env, column = wp.tid()
    joint = ids[column]
    out[env, column] = normalized_position(positions[env, joint], limits[env, joint])


@wp.kernel
def _gather_spatial(vectors: wp.array2d[wp.spatial_vector], ids: wp.array[wp.int32], out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = vectors[env, ids[column // 6]][column % 6]


@wp.kernel
def _height_scan(
    positions: wp.array[wp.vec3], hits: wp.array2d[wp.vec3], offset: wp.float32, out: wp.array2d[wp.float32]
):
    env, ray = wp.tid()
    ground = hits[env, ray][2]
    if wp.isinf(ground):
        ground = -wp.inf
    out[env, ray] = positions[env][2] - ground - offset


@wp.kernel
def _current_time(steps: wp.array[wp.int64], dt: wp.float32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = wp.float32(steps[env]) * dt


@wp.kernel
def _remaining_time(steps: wp.array[wp.int64], dt: wp.float32, longest: wp.float32, out: wp.array2d[wp.float32]):
    env, column = wp.tid()
    out[env, column] = longest - wp.float32(steps[env]) * dt
