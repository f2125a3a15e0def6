"""Velocity tracking with the ANYbotics ANYmal C."""

from __future__ import annotations

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import RewardTermCfg
from lab_core.terrain import rough_terrains_cfg
from lab_newton.config import MuJoCoSolverCfg
from lab_tasks.robots import anymal_c_cfg
from lab_tasks.velocity.velocity_env_cfg import (
    add_rough_terrain,
    make_playable,
    set_reward_weights,
    velocity_env_cfg,
)

JOINTS = tuple(f"{leg}_{joint}" for leg in ("LF", "RF", "LH", "RH") for joint in ("HAA", "HFE", "KFE"))
"""Order of actions and observations: leg by leg."""


def anymal_c_flat_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns velocity tracking on flat ground. The return of an episode is at most about 30.

    Args:
        play: Few environments without disturbances, for watching.
    """
    # Contacts include the pairs of bodies that MuJoCo looks at.
    cfg = _anymal_c_env_cfg(njmax=120, nconmax=24)
    set_reward_weights(cfg, feet_air_time=0.5, dof_torques_l2=-2.5e-5)
    cfg.rewards["flat_orientation_l2"] = RewardTermCfg(func=mdp.flat_orientation_l2, weight=-5.0)
    if play:
        make_playable(cfg)
    return cfg


def anymal_c_rough_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns velocity tracking on rough ground.

    Args:
        play: Few environments without disturbances, for watching.
    """
    # More than twice the rows and contacts that random actions and falls need at all levels.
    cfg = _anymal_c_env_cfg(njmax=250, nconmax=32)
    add_rough_terrain(cfg, rough_terrains_cfg())
    if play:
        make_playable(cfg)
    return cfg


def _anymal_c_env_cfg(njmax: int, nconmax: int) -> ManagerBasedRLEnvCfg:
    # With an impratio of 1 the feet of the standing robot creep apart at 4 cm/s until it lies on its belly. Pyramidal
    # cones with a high one press sliding feet upwards.
    solver = MuJoCoSolverCfg(njmax=njmax, nconmax=nconmax, cone="elliptic", impratio=100.0)
    cfg = velocity_env_cfg(anymal_c_cfg(), JOINTS, feet=".*_FOOT", action_scale=0.5, solver=solver)
    cfg.rewards["undesired_contacts"] = RewardTermCfg(
        func=mdp.undesired_contacts,
        weight=-1.0,
        params={"sensor_cfg": mdp.SceneSensorCfg("contact_forces", body_names=".*_THIGH"), "threshold": 1.0},
    )
    return cfg
