"""The cart-pole as a class: the same task as the list of terms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from lab_core.envs import DirectRLEnv, DirectRLEnvCfg
from lab_core.masks import masked_mean
from lab_core.math import wrap_to_pi
from lab_core.sampling import uniform
from lab_tasks.cartpole.cartpole_env_cfg import CART, POLE, cartpole_physics_cfg, cartpole_scene_cfg


@dataclass(kw_only=True)
class CartpoleDirectEnvCfg(DirectRLEnvCfg):
    """Settings of :class:`CartpoleDirectEnv`."""

    num_actions: int = 1
    num_observations: int = 4
    force_scale: float = 100.0
    """Force for an action of 1 [N]."""
    max_cart_pos: float = 3.0
    """The episode ends beyond this distance from the middle of the rail [m]."""
    initial_cart_pos: tuple[float, float] = (-1.0, 1.0)
    """[m]."""
    initial_cart_vel: tuple[float, float] = (-0.5, 0.5)
    """[m/s]."""
    initial_pole_angle: tuple[float, float] = (-math.pi / 4, math.pi / 4)
    """[rad]."""
    initial_pole_vel: tuple[float, float] = (-math.pi / 4, math.pi / 4)
    """[rad/s]."""

    def build(self, device: str | torch.device = "cpu") -> CartpoleDirectEnv:
        return CartpoleDirectEnv(self, device)


def cartpole_direct_env_cfg(play: bool = False) -> CartpoleDirectEnvCfg:
    """Returns the task at 60 Hz with 5 s episodes.

    Args:
        play: Few environments, for watching.
    """
    cfg = CartpoleDirectEnvCfg(
        physics=cartpole_physics_cfg(), scene=cartpole_scene_cfg(), decimation=2, episode_length_s=5.0
    )
    if play:
        cfg.scene.num_envs = 1
    return cfg


class CartpoleDirectEnv(DirectRLEnv):
    """Keep the pole upright and the cart on the rail."""

    cfg: CartpoleDirectEnvCfg

    def _setup(self) -> None:
        self.robot = self.scene["robot"]
        (self.cart,), (self.pole,) = self.robot.find_joints(CART), self.robot.find_joints(POLE)

    def _apply_actions(self) -> None:
        torch.mul(self.actions[:, 0], self.cfg.force_scale, out=self.robot.data.joint_effort_target[:, self.cart])

    def _get_observations(self) -> dict[str, torch.Tensor]:
        data = self.robot.data
        return {
            "policy": torch.cat(
                (data.joint_pos - data.default_joint_pos, data.joint_vel - data.default_joint_vel), dim=-1
            )
        }

    def _get_rewards(self) -> torch.Tensor:
        position, velocity = self.robot.data.joint_pos, self.robot.data.joint_vel
        terminated = self.reset_terminated.float()
        rate = (
            (1.0 - terminated)
            - 2.0 * terminated
            - wrap_to_pi(position[:, self.pole]) ** 2
            - 0.01 * velocity[:, self.cart].abs()
            - 0.005 * velocity[:, self.pole].abs()
        )
        return rate * self.step_dt

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        out_of_bounds = self.robot.data.joint_pos[:, self.cart].abs() > self.cfg.max_cart_pos
        return out_of_bounds, self.episode_length_buf >= self.max_episode_length

    def _reset_state(self, mask: torch.Tensor) -> None:
        data, cfg = self.robot.data, self.cfg
        position, velocity = data.default_joint_pos.clone(), data.default_joint_vel.clone()
        for joint, pos_range, vel_range in (
            (self.cart, cfg.initial_cart_pos, cfg.initial_cart_vel),
            (self.pole, cfg.initial_pole_angle, cfg.initial_pole_vel),
        ):
            position[:, joint] += uniform(*pos_range, (self.num_envs,), self.generator)
            velocity[:, joint] += uniform(*vel_range, (self.num_envs,), self.generator)
        limits = data.soft_joint_pos_limits
        self.robot.write_joint_state(position.clamp(limits[..., 0], limits[..., 1]), velocity, mask)

    def _reset_buffers(self, mask: torch.Tensor) -> dict[str, Any]:
        return {"Metrics/success_rate": masked_mean(self.reset_time_outs.float(), mask)}
