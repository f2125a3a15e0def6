"""Twins of :mod:`lab_core.mdp.terminations` without contacts; there is said what they return."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import warp as wp

from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_warp.env import WarpEnv
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_ROBOT = SceneEntityCfg("robot")


@twin_of(mdp.time_out)
def time_out(env: WarpEnv, out: wp.array) -> None:
    _launch(env, _time_out, out, env.warp.episode_length, env.max_episode_length)


@twin_of(mdp.joint_pos_out_of_manual_limit)
def joint_pos_out_of_manual_limit(
    env: WarpEnv, out: wp.array, bounds: tuple[float, float], asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    position = env.scene[asset_cfg.name].data.warp.joint_pos
    _launch(env, _out_of_bounds, out, position, bounds[0], bounds[1], joint_index(asset_cfg))


@twin_of(mdp.joint_pos_out_of_limit)
def joint_pos_out_of_limit(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    _launch(env, _out_of_limits, out, data.joint_pos, data.soft_joint_pos_limits, joint_index(asset_cfg))


@twin_of(mdp.root_height_below_minimum)
def root_height_below_minimum(
    env: WarpEnv, out: wp.array, minimum_height: float, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    _launch(env, _below, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w, minimum_height)


@twin_of(mdp.bad_orientation)
def bad_orientation(env: WarpEnv, out: wp.array, limit_angle: float, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _tilted, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b, limit_angle)


@twin_of(mdp.terrain_out_of_bounds)
def terrain_out_of_bounds(
    env: WarpEnv, out: wp.array, distance_buffer: float = 3.0, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    if env.physics.terrain is None:
        out.zero_()
        return
    length, width = env.physics.terrain.size
    pose = env.scene[asset_cfg.name].data.warp.root_link_pose_w
    _launch(env, _outside, out, pose, 0.5 * length - distance_buffer, 0.5 * width - distance_buffer)


# Kernels, one thread per environment ------------------------------------------------------------------------------


def _launch(env: WarpEnv, kernel: wp.Kernel, out: wp.array, *inputs: Any) -> None:
    wp.launch(kernel, dim=env.num_envs, inputs=inputs, outputs=[out], device=env.wp_device)


@wp.kernel
def _time_out(steps: wp.array[wp.int64], longest: wp.int64, out: wp.array[wp.bool]):
    env = wp.tid()
    out[env] = steps[env] >= longest


@wp.kernel
def _out_of_bounds(
    positions: wp.array2d[wp.float32],
    low: wp.float32,
    high: wp.float32,
    ids: wp.array[wp.int32],
    out: wp.array[wp.bool],
):
    env = wp.tid()
    outside = wp.bool(False)
    for i in range(ids.shape[0]):
        position = positions[env, ids[i]]
        if position < low or position > high:
            outside = wp.bool(True)
    out[env] = outside


@wp.kernel
def _out_of_limits(
    positions: wp.array2d[wp.float32], limits: wp.array2d[wp.vec2], ids: wp.array[wp.int32], out: wp.array[wp.bool]
):
    env = wp.tid()
    outside = wp.bool(False)
    for i in range(ids.shape[0]):
        position = positions[env, ids[i]]
        low_high = limits[env, ids[i]]
        if position < low_high[0] or position > low_high[1]:
            outside = wp.bool(True)
    out[env] = outside


@wp.kernel
def _below(poses: wp.array[wp.transform], minimum: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    out[env] = poses[env][2] < minimum


@wp.kernel
def _tilted(gravity: wp.array[wp.vec3], limit: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    cosine = -gravity[env][2]
    # Of NaN nothing is known; wp.clamp would make a number of it.
    out[env] = not wp.isnan(cosine) and wp.acos(wp.clamp(cosine, -1.0, 1.0)) > limit


@wp.kernel
def _outside(poses: wp.array[wp.transform], half_length: wp.float32, half_width: wp.float32, out: wp.array[wp.bool]):
    env = wp.tid()
    out[env] = wp.abs(poses[env][0]) > half_length or wp.abs(poses[env][1]) > half_width
