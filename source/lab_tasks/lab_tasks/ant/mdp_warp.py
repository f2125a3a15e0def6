"""Twins of :mod:`lab_tasks.ant.mdp`, which says what they return."""

# Kernels are Warp's language; read as Python they have wrong types.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportInvalidTypeForm=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from lab_core.managers import ManagerTermBase, RewardTermCfg, SceneEntityCfg
from lab_tasks.ant import mdp
from lab_tasks.ant.mdp import Target
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.mdp.functions import at_least_zero, norm2, normalized_position, wrap_to_pi
from lab_warp.mdp.rotations import euler_xyz_from_quat, quat_apply
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

_ROBOT = SceneEntityCfg("robot")

# Observations -----------------------------------------------------------------------------------------------------


@twin_of(mdp.base_yaw_roll)
def base_yaw_roll(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _yaw_roll, out, env.scene[asset_cfg.name].data.warp.root_link_pose_w)


@twin_of(mdp.base_angle_to_target)
def base_angle_to_target(env: WarpEnv, out: wp.array, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    data = env.scene[asset_cfg.name].data.warp
    _launch(env, _angle_to_target, out, *_course(env, target_pos, asset_cfg), data.heading_w)


@twin_of(mdp.base_up_proj)
def base_up_proj(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _up_proj, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b)


@twin_of(mdp.base_heading_proj)
def base_heading_proj(env: WarpEnv, out: wp.array, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _heading_proj, out, *_course(env, target_pos, asset_cfg))


# Rewards ----------------------------------------------------------------------------------------------------------


@twin_of(mdp.progress_reward)
class progress_reward(ManagerTermBase):
    def __init__(self, cfg: RewardTermCfg, env: WarpEnv) -> None:
        super().__init__(cfg, env)
        self._position = torch.zeros(env.num_envs, 2, device=env.device)
        self._position_wp = wp.from_torch(self._position, dtype=wp.vec2)

    def reset(self, mask: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pose = self._env.scene[self.cfg.params["asset_cfg"].name].data.warp.root_link_pose_w
        _launch(self._env, _remember, self._position_wp, mask, pose)

    def __call__(self, env: WarpEnv, out: wp.array, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
        course = _course(env, target_pos, asset_cfg)
        non_finite = wp.from_torch(env.physics.non_finite)
        _launch(env, _progress, out, *course, non_finite, env.step_dt, self._position_wp)


@twin_of(mdp.upright_posture_bonus)
def upright_posture_bonus(env: WarpEnv, out: wp.array, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    _launch(env, _upright, out, env.scene[asset_cfg.name].data.warp.projected_gravity_b, threshold)


@twin_of(mdp.move_to_target_bonus)
def move_to_target_bonus(
    env: WarpEnv, out: wp.array, threshold: float, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    _launch(env, _move_to_target, out, *_course(env, target_pos, asset_cfg), threshold)


@twin_of(mdp.power_consumption)
def power_consumption(env: ManagerBasedWarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    velocity = env.scene[asset_cfg.name].data.warp.joint_vel
    _launch(env, _power, out, env.action_manager.warp.action, velocity, joint_index(asset_cfg))


@twin_of(mdp.joint_pos_limits_penalty_ratio)
def joint_pos_limits_penalty_ratio(
    env: WarpEnv, out: wp.array, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    data, ids = env.scene[asset_cfg.name].data.warp, joint_index(asset_cfg)
    _launch(env, _limits, out, data.joint_pos, data.soft_joint_pos_limits, ids, threshold, 1.0 - threshold)


# Kernels, one thread per environment ------------------------------------------------------------------------------


def _launch(env: WarpEnv, kernel: wp.Kernel, out: wp.array, *inputs: Any) -> None:
    wp.launch(kernel, dim=env.num_envs, inputs=inputs, outputs=[out], device=env.wp_device)


def _course(env: WarpEnv, target_pos: Target, asset_cfg: SceneEntityCfg) -> tuple[wp.array, wp.array, wp.vec2]:
    """Returns what :func:`vector_to_target` takes."""
    target = wp.vec2(target_pos[0], target_pos[1])
    return env.scene[asset_cfg.name].data.warp.root_link_pose_w, env.warp.env_origins, target


@wp.func
def vector_to_target(pose: wp.transform, origin: wp.vec3, target: wp.vec2) -> wp.vec2:
    """Twin of :func:`lab_tasks.ant.mdp.vector_to_target`."""
    return wp.vec2(origin[0] - pose[0] + target[0], origin[1] - pose[1] + target[1])


@wp.func
def unit(vector: wp.vec2) -> wp.vec2:
    """Twin of :func:`lab_core.math.normalize`."""
    squared_norm = vector[0] * vector[0] + vector[1] * vector[1]
    if squared_norm <= 1.0e-16:
        return wp.vec2(0.0, 0.0)
    return vector * (1.0 / wp.sqrt(squared_norm))


@wp.func
def approach(moved: wp.vec2, to_target: wp.vec2) -> wp.float32:
    """Twin of :func:`lab_tasks.ant.mdp.approach`."""
    before = to_target + moved
    lengths = norm2(before[0], before[1]) + norm2(to_target[0], to_target[1])
    both = before + to_target
    return (moved[0] * both[0] + moved[1] * both[1]) / wp.max(lengths, 1.0e-6)


@wp.func
def move_to_target(projection: wp.float32, threshold: wp.float32) -> wp.float32:
    """Twin of :func:`lab_tasks.ant.mdp.move_to_target_bonus`."""
    if projection > threshold:
        return 1.0
    return projection / threshold


@wp.func
def _projection(pose: wp.transform, origin: wp.vec3, target: wp.vec2) -> wp.float32:
    direction = unit(vector_to_target(pose, origin, target))
    x_axis = quat_apply(wp.transform_get_rotation(pose), wp.vec3(1.0, 0.0, 0.0))
    return x_axis[0] * direction[0] + x_axis[1] * direction[1]


@wp.kernel
def _yaw_roll(poses: wp.array[wp.transform], out: wp.array2d[wp.float32]):
    env = wp.tid()
    angles = euler_xyz_from_quat(wp.transform_get_rotation(poses[env]))
    out[env, 0] = angles[2]
    out[env, 1] = angles[0]


@wp.kernel
def _angle_to_target(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    headings: wp.array[wp.float32],
    out: wp.array2d[wp.float32],
):
    env = wp.tid()
    course = vector_to_target(poses[env], origins[env], target)
    out[env, 0] = wrap_to_pi(wp.atan2(course[1], course[0]) - headings[env])


@wp.kernel
def _up_proj(gravity: wp.array[wp.vec3], out: wp.array2d[wp.float32]):
    env = wp.tid()
    out[env, 0] = -gravity[env][2]


@wp.kernel
def _heading_proj(
    poses: wp.array[wp.transform], origins: wp.array[wp.vec3], target: wp.vec2, out: wp.array2d[wp.float32]
):
    env = wp.tid()
    out[env, 0] = _projection(poses[env], origins[env], target)


@wp.kernel
def _remember(mask: wp.array[wp.bool], poses: wp.array[wp.transform], positions: wp.array[wp.vec2]):
    env = wp.tid()
    if mask[env]:
        positions[env] = wp.vec2(poses[env][0], poses[env][1])


@wp.kernel
def _progress(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    non_finite: wp.array[wp.bool],
    dt: wp.float32,
    positions: wp.array[wp.vec2],
    out: wp.array[wp.float32],
):
    """``positions`` of the step before are replaced by the new ones."""
    env = wp.tid()
    position = wp.vec2(poses[env][0], poses[env][1])
    nearer = approach(position - positions[env], vector_to_target(poses[env], origins[env], target))
    positions[env] = position
    if non_finite[env]:
        nearer = 0.0
    out[env] = nearer / dt


@wp.kernel
def _upright(gravity: wp.array[wp.vec3], threshold: wp.float32, out: wp.array[wp.float32]):
    env = wp.tid()
    out[env] = wp.float32(-gravity[env][2] > threshold)


@wp.kernel
def _move_to_target(
    poses: wp.array[wp.transform],
    origins: wp.array[wp.vec3],
    target: wp.vec2,
    threshold: wp.float32,
    out: wp.array[wp.float32],
):
    env = wp.tid()
    out[env] = move_to_target(_projection(poses[env], origins[env], target), threshold)


@wp.kernel
def _power(
    action: wp.array2d[wp.float32],
    velocities: wp.array2d[wp.float32],
    ids: wp.array[wp.int32],
    out: wp.array[wp.float32],
):
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        total += wp.abs(action[env, i] * velocities[env, ids[i]])
    out[env] = total


@wp.kernel
def _limits(
    positions: wp.array2d[wp.float32],
    limits: wp.array2d[wp.vec2],
    ids: wp.array[wp.int32],
    threshold: wp.float32,
    rest: wp.float32,
    out: wp.array[wp.float32],
):
    """``rest`` is what lies between the threshold and the limit."""
    env = wp.tid()
    total = wp.float32(0.0)
    for i in range(ids.shape[0]):
        position = wp.abs(normalized_position(positions[env, ids[i]], limits[env, ids[i]]))
        total += at_least_zero((position - threshold) / rest)
    out[env] = total
