"""Twins of the action, the reset and the observations of motion tracking, whose torch terms say what they do."""

from __future__ import annotations

import warp as wp

from lab_core.managers import SceneEntityCfg, check_range
from lab_tasks.tracking import mdp_kernels as kernels
from lab_tasks.tracking import observations
from lab_tasks.tracking.actions import MotionJointPositionAction, MotionJointPositionActionCfg
from lab_tasks.tracking.events import Ranges, reset_to_motion
from lab_tasks.tracking.motion_command_warp import find_motion
from lab_warp.env import ManagerBasedWarpEnv, WarpEnv
from lab_warp.launches import Kernel, per_env
from lab_warp.mdp import JointActionWarp, bounds
from lab_warp.twins import twin_of
from lab_warp.views import joint_index

_ROBOT = SceneEntityCfg("robot")
_SIX = ("x", "y", "z", "roll", "pitch", "yaw")


@twin_of(MotionJointPositionActionCfg)
class MotionJointPositionActionWarp(  # pyright: ignore[reportIncompatibleMethodOverride]
    JointActionWarp, MotionJointPositionAction
):
    _env: ManagerBasedWarpEnv  # pyright: ignore[reportIncompatibleVariableOverride]
    cfg: MotionJointPositionActionCfg
    _target = "joint_pos_target"

    def process_actions(self, actions: wp.array) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        command, term = find_motion(self._env, self.cfg.command_name), self._arrays
        wp.launch(
            kernels.process_action,
            dim=(self._env.num_envs, self.action_dim),
            inputs=[actions, term.scale, term.offset, term.low, term.high, term.adds_default]
            + [self._asset.data.warp.default_joint_pos, command.shown, joint_index(self._joints)],
            outputs=[term.processed_actions],
            device=self._env.wp_device,
        )


@twin_of(reset_to_motion)
def reset_to_motion_warp(
    env: ManagerBasedWarpEnv,
    mask: wp.array,
    command_name: str,
    pose_range: Ranges,
    velocity_range: Ranges,
    joint_position_range: tuple[float, float],
    from_first_frame: bool = False,
    clips_in_turn: bool = False,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    check_range(joint_position_range, "joint_position_range")
    command, data = find_motion(env, command_name), env.scene[asset_cfg.name].data.warp
    starts = command.starts
    starts.draw(mask)
    clips = len(command.clip_names) if clips_in_turn else 0
    per_env(env, kernels.choose_start, starts.frame, clips, from_first_frame, starts.clip)
    command.start_at(mask, starts.clip, starts.frame)
    ranges = [
        wp.spatial_vector(*bound)
        for what, given in (("pose_range", pose_range), ("velocity_range", velocity_range))
        for bound in bounds(given, _SIX, what)
    ]
    wp.launch(
        kernels.reset_to_shown,
        dim=env.num_envs,
        inputs=[mask, command.shown, env.warp.env_origins, data.body_com_pos_b, data.soft_joint_pos_limits]
        + [*ranges, wp.vec2(*joint_position_range)],
        outputs=[env.warp.rng, data.root_link_pose_w, data.root_com_vel_w, data.joint_pos, data.joint_vel]
        + [env.warp.written],
        device=env.wp_device,
    )


# Observations -----------------------------------------------------------------------------------------------------


@twin_of(observations.motion_anchor_pos_b)
def motion_anchor_pos_b(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    _observe_anchor(env, kernels.motion_anchor_pos, out, command_name, asset_cfg)


@twin_of(observations.motion_anchor_ori_b)
def motion_anchor_ori_b(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    _observe_anchor(env, kernels.motion_anchor_ori, out, command_name, asset_cfg)


@twin_of(observations.robot_body_pos_b)
def robot_body_pos_b(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    _observe_bodies(env, kernels.robot_body_pos, out, command_name, asset_cfg)


@twin_of(observations.robot_body_ori_b)
def robot_body_ori_b(
    env: ManagerBasedWarpEnv, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg = _ROBOT
) -> None:
    _observe_bodies(env, kernels.robot_body_ori, out, command_name, asset_cfg)


@twin_of(observations.root_link_lin_vel)
def root_link_lin_vel(env: WarpEnv, out: wp.array, asset_cfg: SceneEntityCfg = _ROBOT) -> None:
    per_env(env, kernels.copy_vector, out, env.scene[asset_cfg.name].data.warp.root_link_lin_vel_b)


def _observe_anchor(
    env: ManagerBasedWarpEnv, kernel: Kernel, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg
) -> None:
    command, data = find_motion(env, command_name), env.scene[asset_cfg.name].data.warp
    per_env(
        env, kernel, out, data.body_link_pose_w, env.warp.env_origins, command.body_pos, command.body_quat,
        command.body_ids, command.keys.anchor,
    )  # fmt: skip


def _observe_bodies(
    env: ManagerBasedWarpEnv, kernel: Kernel, out: wp.array, command_name: str, asset_cfg: SceneEntityCfg
) -> None:
    command, data = find_motion(env, command_name), env.scene[asset_cfg.name].data.warp
    dim = (env.num_envs, len(command.keys.names))
    inputs = [data.body_link_pose_w, command.body_ids, command.keys.anchor]
    wp.launch(kernel, dim=dim, inputs=inputs, outputs=[out], device=env.wp_device)
