"""The cart-pole class as Warp kernels, twin of :class:`lab_tasks.cartpole.cartpole_direct_env.CartpoleDirectEnv`."""

from __future__ import annotations

from typing import Any

import torch
import warp as wp

from lab_core.managers import SceneEntityCfg
from lab_tasks.cartpole import cartpole_direct_env_kernels as kernels
from lab_tasks.cartpole.cartpole_direct_env import CartpoleDirectEnvCfg
from lab_tasks.cartpole.cartpole_env_cfg import CART, POLE
from lab_warp.envs import DirectRLEnvWarp
from lab_warp.launches import Kernel
from lab_warp.mdp import reset_joints_by_offset
from lab_warp.reductions import masked_means
from lab_warp.twins import twin_of


@twin_of(CartpoleDirectEnvCfg)
class CartpoleDirectEnvWarp(DirectRLEnvWarp):
    """Keep the pole upright and the cart on the rail."""

    cfg: CartpoleDirectEnvCfg
    log_names = ("Metrics/success_rate",)

    def _setup(self) -> None:
        robot = self.scene["robot"]
        self.data = robot.data.warp
        (self.cart,), (self.pole,) = robot.find_joints(CART), robot.find_joints(POLE)
        self.cart_joint, self.pole_joint = (SceneEntityCfg("robot", joint_names=name) for name in (CART, POLE))
        for joint in (self.cart_joint, self.pole_joint):
            joint.resolve(self.scene)
        self._survived = self.scratch(torch.zeros(self.num_envs, 1, device=self.device))
        self._survived_wp = wp.from_torch(self._survived)

    def _apply_actions(self) -> None:
        inputs = [self.warp.actions, self.cfg.force_scale, self.cart]
        self._launch(kernels.push_cart, inputs, [self.data.joint_effort_target])

    def _get_observations(self, out: wp.array) -> None:
        data = self.data
        inputs = [data.joint_pos, data.default_joint_pos, data.joint_vel, data.default_joint_vel]
        self._launch(kernels.observe, inputs, [out])

    def _get_rewards(self, out: wp.array) -> None:
        data = self.data
        inputs = [data.joint_pos, data.joint_vel, self.cart, self.pole, self.warp.terminated, self.step_dt]
        self._launch(kernels.reward, inputs, [out])

    def _get_dones(self, terminated: wp.array, time_outs: wp.array) -> None:
        inputs = [
            self.data.joint_pos,
            self.cart,
            self.cfg.max_cart_pos,
            self.warp.episode_length,
            self.max_episode_length,
        ]
        self._launch(kernels.end, inputs, [terminated, time_outs])

    def _reset_state(self, mask: wp.array) -> None:
        cfg = self.cfg
        reset_joints_by_offset(self, mask, cfg.initial_cart_pos, cfg.initial_cart_vel, self.cart_joint)
        reset_joints_by_offset(self, mask, cfg.initial_pole_angle, cfg.initial_pole_vel, self.pole_joint)

    def _reset_buffers(self, mask: wp.array, log: wp.array) -> None:
        self._launch(kernels.note_survival, [self.warp.time_outs], [self._survived_wp])
        masked_means(self._survived_wp, mask, self.warp.reset_count, log, 1.0, self.wp_device)

    def _launch(self, kernel: Kernel, inputs: list[Any], outputs: list[wp.array]) -> None:
        wp.launch(kernel, dim=self.num_envs, inputs=inputs, outputs=outputs, device=self.wp_device)
