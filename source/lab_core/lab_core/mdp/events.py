"""Events: ``func(env, mask, ...)`` changes the environments of ``mask`` (N,) bool, which may be empty.

Values are drawn for all environments and written where the mask says, so that the random stream does not depend on
which environments were reset. Reset events read and write positions and velocities only; poses of bodies follow when
all of them are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lab_core.managers import SceneEntityCfg
from lab_core.sampling import uniform

if TYPE_CHECKING:
    from lab_core.envs import RLEnv

_ROBOT = SceneEntityCfg("robot")


def reset_scene_to_default(env: RLEnv, mask: torch.Tensor) -> None:
    """Puts every entity into its default state."""
    for entity in env.scene.values():
        entity.write_default_state(mask)


def reset_joints_by_offset(
    env: RLEnv,
    mask: torch.Tensor,
    position_range: tuple[float, float],
    velocity_range: tuple[float, float],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Joint state = default + uniform offset, drawn per joint; positions are clamped to the soft limits.

    ``position_range`` [rad or m], ``velocity_range`` [rad/s or m/s].
    """
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    position, velocity = data.default_joint_pos[:, ids], data.default_joint_vel[:, ids]
    position = position + uniform(*position_range, position.shape, env.generator)
    velocity = velocity + uniform(*velocity_range, velocity.shape, env.generator)
    _write_joints(env, mask, asset_cfg, position, velocity)


def reset_joints_by_scale(
    env: RLEnv,
    mask: torch.Tensor,
    position_range: tuple[float, float],
    velocity_range: tuple[float, float],
    asset_cfg: SceneEntityCfg = _ROBOT,
) -> None:
    """Joint state = default * uniform factor, drawn per joint; positions are clamped to the soft limits."""
    data, ids = env.scene[asset_cfg.name].data, asset_cfg.joint_ids
    position, velocity = data.default_joint_pos[:, ids], data.default_joint_vel[:, ids]
    position = position * uniform(*position_range, position.shape, env.generator)
    velocity = velocity * uniform(*velocity_range, velocity.shape, env.generator)
    _write_joints(env, mask, asset_cfg, position, velocity)


def _write_joints(
    env: RLEnv, mask: torch.Tensor, asset_cfg: SceneEntityCfg, position: torch.Tensor, velocity: torch.Tensor
) -> None:
    """Writes the state of the selected joints; the others keep theirs."""
    entity, ids = env.scene[asset_cfg.name], asset_cfg.joint_ids
    low, high = entity.data.soft_joint_pos_limits[:, ids].unbind(dim=-1)
    all_positions, all_velocities = entity.data.joint_pos.clone(), entity.data.joint_vel.clone()
    all_positions[:, ids] = position.clamp(low, high)
    all_velocities[:, ids] = velocity
    entity.write_joint_state(all_positions, all_velocities, mask)
