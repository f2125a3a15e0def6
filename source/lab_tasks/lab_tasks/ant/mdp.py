"""Terms of locomotion towards a far target.

``target_pos`` (x, y, z) [m] is relative to the environment's origin; only its horizontal part counts.
"""

from __future__ import annotations

import torch

from lab_core import mdp
from lab_core.env import Env, ManagerBasedEnv
from lab_core.managers import ManagerTermBase, RewardTermCfg, SceneEntityCfg
from lab_core.masks import masked_copy_
from lab_core.math import roll_yaw_from_quat, wrap_to_pi

_ROBOT = SceneEntityCfg("robot")
Target = tuple[float, float, float]


def vector_to_target(env: Env, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Horizontal vector from the root link to the target, world axes (N, 2) [m]."""
    vector = env.scene.env_origins[:, :2] - env.scene[asset_cfg.name].data.root_link_pose_w[:, :2]
    for axis in range(2):
        if target_pos[axis]:
            vector[:, axis].add_(target_pos[axis])
    return vector


# Observations -----------------------------------------------------------------------------------------------------


def base_yaw_roll(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Yaw and roll of the root link, each in -pi .. pi (N, 2) [rad]."""
    return roll_yaw_from_quat(env.scene[asset_cfg.name].data.root_link_pose_w[:, 3:]).flip(1)


def base_angle_to_target(env: Env, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Direction to the target minus the heading of the root link, in -pi .. pi (N, 1) [rad]."""
    x, y = vector_to_target(env, target_pos, asset_cfg).unbind(dim=1)
    return wrap_to_pi(torch.atan2(y, x) - env.scene[asset_cfg.name].data.heading_w).unsqueeze(1)


def base_up_proj(env: Env, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Vertical component of the root-link z axis, 1 when upright (N, 1)."""
    return -env.scene[asset_cfg.name].data.projected_gravity_b[:, 2:3]


def base_heading_proj(env: Env, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Component of the root-link x axis along the horizontal direction to the target (N, 1)."""
    to_target = vector_to_target(env, target_pos, asset_cfg)
    quat = env.scene[asset_cfg.name].data.root_link_pose_w[:, 3:]
    # The x axis is (1 - 2 (y^2 + z^2), 2 (x y + z w), ...); in few operations, since torch launches each of them.
    forward = torch.rsub(quat[:, 1:3].square().sum(dim=1), 1.0, alpha=2.0)
    left = (quat[:, 0::2] * quat[:, 1::2]).sum(dim=1)
    along = torch.addcmul(forward * to_target[:, 0], left, to_target[:, 1], value=2.0)
    return (along / to_target.norm(dim=1).clamp(min=1e-8)).unsqueeze(1)


# Rewards ----------------------------------------------------------------------------------------------------------


class progress_reward(ManagerTermBase):
    """How much nearer the root link came to the target in this step, per second [m/s].

    Not where the physics put an environment that went non-finite back to its default state: that jump is no progress
    either.

    Parameters:
        target_pos: See the module.
    """

    def __init__(self, cfg: RewardTermCfg, env: Env) -> None:
        super().__init__(cfg, env)
        self._position = torch.zeros(env.num_envs, 2, device=env.device)

    def reset(self, mask: torch.Tensor) -> None:
        """Measures from where the episode begins, so that the jump there is no progress."""
        masked_copy_(self._position, self._now(), mask)

    def __call__(self, env: Env, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
        now = self._now()
        nearer = approach(now - self._position, vector_to_target(env, target_pos, asset_cfg))
        self._position.copy_(now)
        return nearer.masked_fill_(env.physics.non_finite, 0.0) / env.step_dt

    def _now(self) -> torch.Tensor:
        return self._env.scene[self.cfg.params["asset_cfg"].name].data.root_link_pose_w[:, :2]


def approach(moved: torch.Tensor, to_target: torch.Tensor) -> torch.Tensor:
    """How much nearer a target is after a move (N,) [m].

    With a and b the vectors to the target before and after, it is |a| - |b| = (a - b) . (a + b) / (|a| + |b|). The
    difference of the lengths itself would lose a step of centimetres in the rounding of a kilometre.

    Args:
        moved: a - b, (N, 2).
        to_target: b, (N, 2).
    """
    before = to_target + moved
    lengths = before.norm(dim=1) + to_target.norm(dim=1)
    return (moved * (before + to_target)).sum(dim=1) / lengths.clamp(min=1e-6)


def upright_posture_bonus(env: Env, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """1 where :func:`base_up_proj` is greater than ``threshold``."""
    return (base_up_proj(env, asset_cfg).squeeze(1) > threshold).float()


def move_to_target_bonus(
    env: Env, threshold: float, target_pos: Target, asset_cfg: SceneEntityCfg = _ROBOT
) -> torch.Tensor:
    """:func:`base_heading_proj` over ``threshold``, and 1 above it."""
    projection = base_heading_proj(env, target_pos, asset_cfg).squeeze(1)
    return torch.where(projection > threshold, 1.0, projection / threshold)


def power_consumption(env: ManagerBasedEnv, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """Sum of |action * joint velocity| [rad/s], for effort actions with one column per joint."""
    velocity = env.scene[asset_cfg.name].data.joint_vel[:, asset_cfg.joint_ids]
    return (env.action_manager.action * velocity).abs().sum(dim=1)


def joint_pos_limits_penalty_ratio(env: Env, threshold: float, asset_cfg: SceneEntityCfg = _ROBOT) -> torch.Tensor:
    """How far normalised joint positions are beyond ``threshold``, 1 at the limit, summed over joints."""
    position = mdp.joint_pos_limit_normalized(env, asset_cfg).abs()
    return ((position - threshold) / (1.0 - threshold)).clamp(min=0.0).sum(dim=1)
