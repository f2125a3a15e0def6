"""Events of motion tracking: ``func(env, mask, ...)`` changes the environments of ``mask`` (N,) bool."""

from __future__ import annotations

import torch

from lab_core.config import Interval
from lab_core.env import Env, ManagerBasedEnv
from lab_core.managers import EventTermCfg, ManagerTermBase, SceneEntityCfg, check_range
from lab_core.masks import masked_copy_
from lab_core.math import com_lin_vel_from_link, quat_from_euler_xyz, quat_mul
from lab_core.mdp import draw_six
from lab_core.sampling import uniform
from lab_tasks.tracking.motion_command import MotionCommand
from lab_tasks.tracking.motion_target import motion_command

_ROBOT = SceneEntityCfg("robot")
Ranges = dict[str, tuple[float, float]]


def reset_to_motion(
    env: ManagerBasedEnv,
    mask: torch.Tensor,
    command_name: str,
    pose_range: Ranges,
    velocity_range: Ranges,
    joint_position_range: Interval,
    from_first_frame: bool = False,
    clips_in_turn: bool = False,
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Draws a clip and a frame from the command's sampler and puts the robot there, moved by uniform draws.

    Args:
        env: The environment.
        mask: (N,) bool.
        command_name: A motion command, which starts at the same frame.
        pose_range: x, y, z [m] and roll, pitch, yaw [rad] of the root in the world; missing ones are 0.
        velocity_range: Likewise of its velocity [m/s, rad/s].
        joint_position_range: Of every joint [rad]; positions are clamped to the soft limits, velocities are exact.
        from_first_frame: Begin every clip at its beginning.
        clips_in_turn: Environment i always plays clip i modulo their number.
        asset_cfg: The robot.
    """
    check_range(joint_position_range, "joint_position_range")
    command = motion_command(env, command_name)
    assert isinstance(command, MotionCommand)
    clip, frame = command.sampler.draw(env.generator, env.num_envs)
    if clips_in_turn:
        clip = torch.arange(env.num_envs, device=env.device) % len(command.clip_names)
    command.start_at(mask, clip, 0 if from_first_frame else frame)
    target, entity = command.target, env.scene[asset_cfg.name]
    data = entity.data
    pose, velocity = draw_six(env, pose_range, "pose_range"), draw_six(env, velocity_range, "velocity_range")
    position = target.root_pose[:, :3] + env.scene.env_origins + pose[:, :3]
    orientation = quat_mul(quat_from_euler_xyz(*pose[:, 3:].unbind(dim=1)), target.root_pose[:, 3:])
    entity.write_root_link_pose(torch.cat((position, orientation), dim=1), mask)
    lin, ang = (target.root_vel + velocity).split(3, dim=1)
    lin = com_lin_vel_from_link(lin, ang, orientation, data.body_com_pos_b[:, 0])
    entity.write_root_com_velocity(torch.cat((lin, ang), dim=1), mask)
    low, high = data.soft_joint_pos_limits.unbind(dim=-1)
    joints = target.joint_pos + uniform(*joint_position_range, target.joint_pos.shape, env.generator)
    entity.write_joint_state(joints.clamp(low, high), target.joint_vel, mask)


class randomize_default_joint_pos(ManagerTermBase):
    """Moves the default joint positions by uniform draws, as of joints whose zero is not quite known.

    Everything that is relative to them moves along: the offset of actions, and observations. Every draw starts from the
    robot's configuration.

    Parameters:
        offset_range: Of every joint [rad].
    """

    def __init__(self, cfg: EventTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        check_range(cfg.params["offset_range"], "offset_range")
        asset_cfg = cfg.params["asset_cfg"]
        self._nominal = self.scratch(env.scene[asset_cfg.name].data.default_joint_pos.clone())

    def __call__(
        self,
        env: Env,
        mask: torch.Tensor,
        offset_range: Interval,
        asset_cfg: SceneEntityCfg = _ROBOT,
    ) -> None:
        default, ids = env.scene[asset_cfg.name].data.default_joint_pos, asset_cfg.joint_ids
        nominal = self._nominal[:, ids]
        moved = default.clone()
        moved[:, ids] = nominal + uniform(*offset_range, nominal.shape, env.generator)
        masked_copy_(default, moved, mask)
