"""Terms of an entity that is to reach a pose: of commands (N, 7), a position relative to the environment's origin and
an orientation, such as :class:`~lab_core.mdp.OrientationGoalCommand`.
"""

from __future__ import annotations

from typing import Any

import torch

from lab_core.config import NonNegative, Positive
from lab_core.env import ManagerBasedEnv
from lab_core.managers import SceneEntityCfg, TermError, declare
from lab_core.math import quat_conjugate, quat_error_magnitude, quat_mul
from lab_core.mdp.commands_orientation import OrientationGoal

_OBJECT = SceneEntityCfg("object")

# Observations -----------------------------------------------------------------------------------------------------


@declare(differentiable=True)
def goal_quat_diff(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg = _OBJECT) -> torch.Tensor:
    """Rotation from the goal's orientation to that of the root link, q conj(q*), in the world frame (N, 4), xyzw."""
    goal = env.command_manager.get_command(command_name)[:, 3:]
    return quat_mul(env.scene[asset_cfg.name].data.root_link_pose_w[:, 3:], quat_conjugate(goal))


# Rewards ----------------------------------------------------------------------------------------------------------


@declare(differentiable=True)
def track_pos_l2(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg = _OBJECT) -> torch.Tensor:
    """Distance of the root link from the goal (N,) [m]."""
    position = env.scene[asset_cfg.name].data.root_link_pose_w[:, :3] - env.scene.env_origins
    return (position - env.command_manager.get_command(command_name)[:, :3]).norm(dim=1)


@declare(differentiable=True)
def track_orientation_inv_l2(
    env: ManagerBasedEnv, command_name: str, rot_eps: Positive = 0.1, asset_cfg: SceneEntityCfg = _OBJECT
) -> torch.Tensor:
    """1 / (angle between root link and goal + rot_eps) (N,) [1/rad]."""
    return 1.0 / (_angle(env, command_name, asset_cfg) + rot_eps)


def success_bonus(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg = _OBJECT) -> torch.Tensor:
    """1 where the goal is reached in this step (N,), unless a reset gave it away.

    Raises:
        TermError: the command is no :class:`~lab_core.mdp.OrientationGoal`.
    """
    command: Any = env.command_manager.get_term(command_name)
    if not isinstance(command, OrientationGoal):
        raise TermError(
            f"success_bonus needs a goal of an orientation, {command_name!r} is a {type(command).__name__}."
        )
    return ((_angle(env, command_name, asset_cfg) <= command.tolerance) & ~command.is_given).float()


def _angle(env: ManagerBasedEnv, command_name: str, asset_cfg: SceneEntityCfg) -> torch.Tensor:
    goal = env.command_manager.get_command(command_name)[:, 3:]
    return quat_error_magnitude(env.scene[asset_cfg.name].data.root_link_pose_w[:, 3:], goal)


# Terminations -----------------------------------------------------------------------------------------------------


@declare(differentiable=True)
def object_away_from_goal(
    env: ManagerBasedEnv, threshold: NonNegative, command_name: str, asset_cfg: SceneEntityCfg = _OBJECT
) -> torch.Tensor:
    """The root link is ``threshold`` [m] or more away from the goal (N,)."""
    return track_pos_l2(env, command_name, asset_cfg) >= threshold
