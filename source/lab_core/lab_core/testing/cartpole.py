"""A complete task on the analytic cart-pole: a real environment that builds in milliseconds."""

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
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.testing.analytic import AnalyticCartpoleCfg


def analytic_cartpole_env_cfg(num_envs: int = 8, episode_length_s: float = 5.0) -> ManagerBasedRLEnvCfg:
    """Returns the cart-pole task (60 Hz; action: force / 100 N; observation: positions, then velocities)."""
    cart = SceneEntityCfg(joint_names=("slider_to_cart",))
    pole = SceneEntityCfg(joint_names=("cart_to_pole",))
    quarter = math.pi / 4
    return ManagerBasedRLEnvCfg(
        physics=AnalyticCartpoleCfg(dt=1 / 120),
        scene=SceneCfg(
            num_envs=num_envs,
            entities={
                "robot": ArticulationCfg(
                    asset="analytic",
                    init_state=InitialStateCfg(pos=(0.0, 0.0, 2.0)),
                    actuators={
                        "cart": IdealPDActuatorCfg(joint_names=("slider_to_cart",), damping=10.0, effort_limit=400.0),
                        "pole": IdealPDActuatorCfg(joint_names=("cart_to_pole",), effort_limit=400.0),
                    },
                )
            },
        ),
        decimation=2,
        episode_length_s=episode_length_s,
        actions={"cart_effort": mdp.JointEffortActionCfg(joint_names=("slider_to_cart",), scale=100.0)},
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
