"""Velocity tracking with the Unitree Go2."""

from __future__ import annotations

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import RewardTermCfg
from lab_core.terrain import rough_terrains_cfg
from lab_newton.config import MuJoCoSolverCfg
from lab_tasks.robots import go2_cfg
from lab_tasks.velocity.velocity_env_cfg import (
    add_rough_terrain,
    make_playable,
    set_reward_weights,
    velocity_env_cfg,
)

JOINTS = tuple(f"{leg}_{joint}_joint" for leg in ("FL", "FR", "RL", "RR") for joint in ("hip", "thigh", "calf"))
"""Order of actions and observations: leg by leg."""


def go2_flat_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns velocity tracking on flat ground. The return of an episode is at most about 45.

    Args:
        play: Few environments without disturbances, for watching.
    """
    # Twice the rows and four times the contacts that random actions and falls need.
    cfg = _go2_env_cfg(MuJoCoSolverCfg(njmax=100, nconmax=16))
    set_reward_weights(cfg, feet_air_time=0.25)
    cfg.rewards["flat_orientation_l2"] = RewardTermCfg(func=mdp.flat_orientation_l2, weight=-2.5)
    if play:
        make_playable(cfg)
    return cfg


def go2_rough_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns velocity tracking on rough ground, with obstacles to the size of the robot.

    Args:
        play: Few environments without disturbances, for watching.
    """
    # More than twice the rows and contacts that random actions and falls need at all levels.
    cfg = _go2_env_cfg(MuJoCoSolverCfg(njmax=250, nconmax=32))
    add_rough_terrain(
        cfg,
        rough_terrains_cfg(
            step_height_range=(0.025, 0.12), grid_height_range=(0.025, 0.1), noise_range=(0.01, 0.06), noise_step=0.01
        ),
    )
    set_reward_weights(cfg, feet_air_time=0.01)
    cfg.rewards["base_height_l2"] = _base_height(sensor_cfg=mdp.SceneSensorCfg("height_scanner"))
    if play:
        make_playable(cfg)
    return cfg


def _go2_env_cfg(solver: MuJoCoSolverCfg) -> ManagerBasedRLEnvCfg:
    cfg = velocity_env_cfg(go2_cfg(), JOINTS, feet=".*_foot", action_scale=0.25, solver=solver)
    set_reward_weights(
        cfg,
        track_lin_vel_xy_exp=1.5,
        track_ang_vel_z_exp=0.75,
        dof_torques_l2=-2e-4,
        action_rate_l2=-0.005,  # a stronger one locks a hind foot into a dragging gait
    )
    cfg.rewards["base_height_l2"] = _base_height()
    return cfg


def _base_height(**params: mdp.SceneSensorCfg) -> RewardTermCfg:
    """The legs can carry the robot on their shins without touching the base. The height is above the natural 0.32 m."""
    return RewardTermCfg(func=mdp.base_height_l2, weight=-30.0, params={"target_height": 0.4, **params})
