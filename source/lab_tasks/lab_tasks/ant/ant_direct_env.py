"""The ant as a class: the same task as the list of terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from lab_core.envs import DirectRLEnv, DirectRLEnvCfg
from lab_core.masks import masked_copy_, masked_mean
from lab_core.math import euler_xyz_from_quat, normalize, wrap_to_pi
from lab_core.sampling import uniform
from lab_core.sensors import JointWrenchData
from lab_tasks.ant.ant_env_cfg import TARGET, ant_physics_cfg, ant_scene_cfg
from lab_tasks.ant.mdp import approach


@dataclass(kw_only=True)
class AntDirectEnvCfg(DirectRLEnvCfg):
    """Settings of :class:`AntDirectEnv`."""

    num_actions: int = 8
    num_observations: int = 60
    effort_scale: float = 7.5
    """Joint effort for an action of 1, which is also the largest [N m]."""
    target_pos: tuple[float, float, float] = TARGET
    """Where the ant runs to, relative to the environment's origin [m]."""
    minimum_height: float = 0.31
    """The episode ends when the torso is lower [m]."""
    joint_pos_noise: float = 0.2
    """Joints start at their default, plus or minus this [rad]."""
    joint_vel_noise: float = 0.1
    """[rad/s]."""

    def build(self, device: str | torch.device = "cpu") -> AntDirectEnv:
        return AntDirectEnv(self, device)


def ant_direct_env_cfg(play: bool = False) -> AntDirectEnvCfg:
    """Returns the task at 60 Hz with 16 s episodes.

    Args:
        play: Few environments, for watching.
    """
    cfg = AntDirectEnvCfg(physics=ant_physics_cfg(), scene=ant_scene_cfg(), decimation=2, episode_length_s=16.0)
    if play:
        cfg.scene.num_envs = 4
    return cfg


class AntDirectEnv(DirectRLEnv):
    """Run towards the target without falling."""

    cfg: AntDirectEnvCfg

    def _setup(self) -> None:
        self.robot = self.scene["robot"]
        feet = self.scene.sensor("feet_wrench")
        assert isinstance(feet, JointWrenchData)
        self.feet = feet
        self._last_position = torch.zeros(self.num_envs, 2, device=self.device)

    def _apply_actions(self) -> None:
        self.robot.data.joint_effort_target.copy_(self.actions.clamp(-1.0, 1.0) * self.cfg.effort_scale)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        data = self.robot.data
        roll, _, yaw = euler_xyz_from_quat(data.root_link_pose_w[:, 3:])
        x, y = self._to_target().unbind(dim=1)
        columns = (
            data.root_link_pose_w[:, 2:3],
            data.root_com_lin_vel_b,
            data.root_ang_vel_b,
            torch.stack((yaw, roll, wrap_to_pi(torch.atan2(y, x) - data.heading_w)), dim=1),
            -data.projected_gravity_b[:, 2:3],
            self._heading_proj().unsqueeze(1),
            self._normalized_joint_pos(),
            0.2 * (data.joint_vel - data.default_joint_vel),
            0.1 * self.feet.wrench_b.flatten(start_dim=1),
            self.actions,
        )
        return {"policy": torch.cat(columns, dim=1)}

    def _get_rewards(self) -> torch.Tensor:
        data, actions = self.robot.data, self.actions
        position = data.root_link_pose_w[:, :2]
        progress = approach(position - self._last_position, self._to_target()) / self.step_dt
        progress.masked_fill_(self.physics.non_finite, 0.0)  # they were put back to their default state
        self._last_position.copy_(position)
        terminated = self.reset_terminated.float()
        heading = self._heading_proj()
        rate = (
            progress
            + 0.5 * (1.0 - terminated)
            + 0.1 * (data.projected_gravity_b[:, 2] < -0.93)
            + 0.5 * torch.where(heading > 0.8, 1.0, heading / 0.8)
            - 0.005 * actions.square().sum(dim=1)
            - 0.05 * (actions * data.joint_vel).abs().sum(dim=1)
            - 0.1 * ((self._normalized_joint_pos().abs() - 0.99) / 0.01).clamp(min=0.0).sum(dim=1)
        )
        return rate * self.step_dt - 2.0 * terminated

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        too_low = self.robot.data.root_link_pose_w[:, 2] < self.cfg.minimum_height
        return too_low, self.episode_length_buf >= self.max_episode_length

    def _reset_state(self, mask: torch.Tensor) -> None:
        data, cfg = self.robot.data, self.cfg
        shape = data.joint_pos.shape
        position = data.default_joint_pos + uniform(-cfg.joint_pos_noise, cfg.joint_pos_noise, shape, self.generator)
        velocity = data.default_joint_vel + uniform(-cfg.joint_vel_noise, cfg.joint_vel_noise, shape, self.generator)
        limits = data.soft_joint_pos_limits
        self.robot.write_joint_state(position.clamp(limits[..., 0], limits[..., 1]), velocity, mask)

    def _reset_buffers(self, mask: torch.Tensor) -> dict[str, Any]:
        masked_copy_(self._last_position, self.robot.data.root_link_pose_w[:, :2], mask)
        return {"Metrics/success_rate": masked_mean(self.reset_time_outs.float(), mask)}

    def _to_target(self) -> torch.Tensor:
        """Horizontal vector to the target (N, 2) [m]."""
        x, y = (self.scene.env_origins[:, :2] - self.robot.data.root_link_pose_w[:, :2]).unbind(dim=1)
        return torch.stack((x + self.cfg.target_pos[0], y + self.cfg.target_pos[1]), dim=1)

    def _heading_proj(self) -> torch.Tensor:
        """Component of the torso's x axis along the direction to the target (N,)."""
        x, y, z, w = self.robot.data.root_link_pose_w[:, 3:].unbind(dim=1)
        x_axis = torch.stack((1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)), dim=1)
        return (x_axis * normalize(self._to_target())).sum(dim=1)

    def _normalized_joint_pos(self) -> torch.Tensor:
        """Joint positions, -1 at the lower and 1 at the upper limit (N, 8)."""
        low, high = self.robot.data.soft_joint_pos_limits.unbind(dim=-1)
        return 2.0 * (self.robot.data.joint_pos - 0.5 * (low + high)) / (high - low)
