"""The ant class as Warp kernels, twin of :class:`lab_tasks.ant.ant_direct_env.AntDirectEnv`."""

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from lab_core.managers import SceneEntityCfg
from lab_core.sensors import JointWrenchData
from lab_tasks.ant import ant_direct_env_kernels as kernels
from lab_tasks.ant.ant_direct_env import AntDirectEnvCfg
from lab_warp.envs import DirectRLEnvWarp
from lab_warp.launches import Kernel
from lab_warp.mdp import reset_joints_by_offset
from lab_warp.reductions import masked_means
from lab_warp.twins import twin_of


@twin_of(AntDirectEnvCfg)
class AntDirectEnvWarp(DirectRLEnvWarp):
    """Run towards the target without falling."""

    cfg: AntDirectEnvCfg
    log_names = ("Metrics/success_rate",)

    def _setup(self) -> None:
        self.data = self.scene["robot"].data.warp
        self.joints = SceneEntityCfg("robot")
        self.joints.resolve(self.scene)
        feet = self.scene.sensor("feet_wrench")
        assert isinstance(feet, JointWrenchData)
        self.feet = feet.warp
        self.target = wp.vec2(self.cfg.target_pos[0], self.cfg.target_pos[1])
        self._last_position = torch.zeros(self.num_envs, 2, device=self.device)
        self._last_position_wp = wp.from_torch(self._last_position, dtype=wp.vec2)
        self._survived = self.scratch(torch.zeros(self.num_envs, 1, device=self.device))
        self._survived_wp = wp.from_torch(self._survived)

    def _apply_actions(self) -> None:
        self._launch(kernels.drive, [self.warp.actions, self.cfg.effort_scale], [self.data.joint_effort_target])

    def _get_observations(self, out: wp.array) -> None:
        data = self.data
        inputs = [
            data.root_link_pose_w,
            self.warp.env_origins,
            self.target,
            data.root_com_lin_vel_b,
            data.root_ang_vel_b,
            data.projected_gravity_b,
            data.heading_w,
            data.joint_pos,
            data.soft_joint_pos_limits,
            data.joint_vel,
            data.default_joint_vel,
            self.feet.wrench_b,
            self.warp.actions,
        ]
        self._launch(kernels.observe, inputs, [out])

    def _get_rewards(self, out: wp.array) -> None:
        data = self.data
        inputs = [
            data.root_link_pose_w,
            self.warp.env_origins,
            self.target,
            data.projected_gravity_b,
            data.joint_pos,
            data.soft_joint_pos_limits,
            data.joint_vel,
            self.warp.actions,
            self.warp.terminated,
            self.warp.non_finite,
            self.step_dt,
        ]
        self._launch(kernels.reward, inputs, [self._last_position_wp, out])

    def _get_dones(self, terminated: wp.array, time_outs: wp.array) -> None:
        inputs = [
            self.data.root_link_pose_w,
            self.cfg.minimum_height,
            self.warp.episode_length,
            self.max_episode_length,
        ]
        self._launch(kernels.end, inputs, [terminated, time_outs])

    def _reset_state(self, mask: wp.array) -> None:
        position, velocity = self.cfg.joint_pos_noise, self.cfg.joint_vel_noise
        reset_joints_by_offset(self, mask, (-position, position), (-velocity, velocity), self.joints)

    def _reset_buffers(self, mask: wp.array, log: wp.array) -> None:
        inputs = [mask, self.data.root_link_pose_w, self.warp.time_outs]
        self._launch(kernels.begin_episode, inputs, [self._last_position_wp, self._survived_wp])
        masked_means(self._survived_wp, mask, self.warp.reset_count, log, 1.0, self.wp_device)

    def _launch(self, kernel: Kernel, inputs: list[Any], outputs: list[wp.array]) -> None:
        wp.launch(kernel, dim=self.num_envs, inputs=inputs, outputs=outputs, device=self.wp_device)
