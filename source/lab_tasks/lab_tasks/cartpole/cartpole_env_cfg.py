"""The cart-pole as a list of terms."""

from __future__ import annotations

import math

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import (
    EventTermCfg,
    MetricTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from lab_core.scene import CameraCfg, GroundCfg, SceneCfg
from lab_newton.config import MuJoCoSolverCfg, NewtonCfg
from lab_tasks.robots import cartpole_cfg

CART = "slider_to_cart"
POLE = "cart_to_pole"


def cartpole_physics_cfg() -> NewtonCfg:
    """Returns physics at 120 Hz; nothing ever touches anything."""
    return NewtonCfg(dt=1 / 120, solver=MuJoCoSolverCfg(njmax=5, nconmax=3, contacts=False))


def cartpole_scene_cfg() -> SceneCfg:
    """Returns a cart-pole above a floor."""
    return SceneCfg(
        env_spacing=4.0,
        ground=GroundCfg(collision=False),
        entities={"robot": cartpole_cfg()},
        camera=CameraCfg(eye=(6.0, 0.0, 2.8), target=(0.0, 0.0, 2.2)),
    )


def cartpole_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns the task at 60 Hz with 5 s episodes.

    Args:
        play: Few environments, for watching.
    """
    cart, pole = SceneEntityCfg(joint_names=(CART,)), SceneEntityCfg(joint_names=(POLE,))
    quarter = math.pi / 4
    cfg = ManagerBasedRLEnvCfg(
        physics=cartpole_physics_cfg(),
        scene=cartpole_scene_cfg(),
        decimation=2,
        episode_length_s=5.0,
        actions={"cart_effort": mdp.JointEffortActionCfg(joint_names=(CART,), scale=100.0)},
        observations={
            "policy": ObservationGroupCfg(
                terms={
                    "joint_pos_rel": ObservationTermCfg(func=mdp.joint_pos_rel),
                    "joint_vel_rel": ObservationTermCfg(func=mdp.joint_vel_rel),
                }
            )
        },
        events={
            "reset_cart": EventTermCfg(
                func=mdp.reset_joints_by_offset,
                mode="reset",
                params={"position_range": (-1.0, 1.0), "velocity_range": (-0.5, 0.5), "asset_cfg": cart},
            ),
            "reset_pole": EventTermCfg(
                func=mdp.reset_joints_by_offset,
                mode="reset",
                params={
                    "position_range": (-quarter, quarter),
                    "velocity_range": (-quarter, quarter),
                    "asset_cfg": pole,
                },
            ),
        },
        rewards={
            "alive": RewardTermCfg(func=mdp.is_alive, weight=1.0),
            "terminating": RewardTermCfg(func=mdp.is_terminated, weight=-2.0),
            "pole_pos": RewardTermCfg(
                func=mdp.joint_pos_target_l2, weight=-1.0, params={"target": 0.0, "asset_cfg": pole}
            ),
            "cart_vel": RewardTermCfg(func=mdp.joint_vel_l1, weight=-0.01, params={"asset_cfg": cart}),
            "pole_vel": RewardTermCfg(func=mdp.joint_vel_l1, weight=-0.005, params={"asset_cfg": pole}),
        },
        terminations={
            "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
            "cart_out_of_bounds": TerminationTermCfg(
                func=mdp.joint_pos_out_of_manual_limit, params={"bounds": (-3.0, 3.0), "asset_cfg": cart}
            ),
        },
        metrics={"success_rate": MetricTermCfg(func=mdp.survived, mode="last")},
    )
    if play:
        cfg.scene.num_envs = 1
    return cfg
