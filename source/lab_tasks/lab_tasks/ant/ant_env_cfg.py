"""The ant as a list of terms."""

from __future__ import annotations

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import (
    EventTermCfg,
    MetricTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
)
from lab_core.physics import PhysicsCfg
from lab_core.scene import CameraCfg, SceneCfg
from lab_core.sensors import JointWrenchCfg
from lab_newton.config import MuJoCoSolverCfg, NewtonCfg
from lab_tasks.ant import mdp as ant_mdp
from lab_tasks.robots import ant_cfg

FEET = ("front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot")
TARGET = (1000.0, 0.0, 0.0)
"""Where the ant runs to, out of reach [m]."""


def ant_physics_cfg() -> PhysicsCfg:
    """Returns physics at 120 Hz."""
    return NewtonCfg(dt=1 / 120, solver=MuJoCoSolverCfg(njmax=45, nconmax=12))


def ant_scene_cfg() -> SceneCfg:
    """Returns an ant on a plane, with sensors in its feet."""
    return SceneCfg(
        env_spacing=5.0,
        entities={"robot": ant_cfg()},
        sensors={"feet_wrench": JointWrenchCfg(body_names=FEET)},
        camera=CameraCfg(eye=(-3.0, -3.0, 2.0), target=(0.3, 0.0, 0.3), follow="robot"),
    )


def ant_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns the task at 60 Hz with 16 s episodes.

    The return of an episode is the distance run [m], plus at most 17.6 for staying up and facing the target, minus
    the costs of effort.

    Args:
        play: Few environments, for watching.
    """
    target = {"target_pos": TARGET}
    cfg = ManagerBasedRLEnvCfg(
        physics=ant_physics_cfg(),
        scene=ant_scene_cfg(),
        decimation=2,
        episode_length_s=16.0,
        # Unbounded efforts drive the solver to NaN.
        actions={"joint_effort": mdp.JointEffortActionCfg(joint_names=".*", scale=7.5, clip=7.5)},
        observations={
            "policy": ObservationGroupCfg(
                terms={
                    "base_height": ObservationTermCfg(func=mdp.base_pos_z),
                    "base_lin_vel": ObservationTermCfg(func=mdp.base_lin_vel),
                    "base_ang_vel": ObservationTermCfg(func=mdp.base_ang_vel),
                    "base_yaw_roll": ObservationTermCfg(func=ant_mdp.base_yaw_roll),
                    "base_angle_to_target": ObservationTermCfg(func=ant_mdp.base_angle_to_target, params=target),
                    "base_up_proj": ObservationTermCfg(func=ant_mdp.base_up_proj),
                    "base_heading_proj": ObservationTermCfg(func=ant_mdp.base_heading_proj, params=target),
                    "joint_pos_norm": ObservationTermCfg(func=mdp.joint_pos_limit_normalized),
                    "joint_vel_rel": ObservationTermCfg(func=mdp.joint_vel_rel, scale=0.2),
                    "feet_body_forces": ObservationTermCfg(
                        func=mdp.body_incoming_wrench,
                        params={"sensor_cfg": mdp.SceneSensorCfg("feet_wrench")},
                        scale=0.1,
                    ),
                    "actions": ObservationTermCfg(func=mdp.last_action),
                }
            )
        },
        events={
            "reset_joints": EventTermCfg(
                func=mdp.reset_joints_by_offset,
                mode="reset",
                params={"position_range": (-0.2, 0.2), "velocity_range": (-0.1, 0.1)},
            ),
        },
        rewards={
            "progress": RewardTermCfg(func=ant_mdp.progress_reward, weight=1.0, params=target),
            "alive": RewardTermCfg(func=mdp.is_alive, weight=0.5),
            "upright": RewardTermCfg(func=ant_mdp.upright_posture_bonus, weight=0.1, params={"threshold": 0.93}),
            "move_to_target": RewardTermCfg(
                func=ant_mdp.move_to_target_bonus, weight=0.5, params={"threshold": 0.8, **target}
            ),
            "action_l2": RewardTermCfg(func=mdp.action_l2, weight=-0.005),
            "energy": RewardTermCfg(func=ant_mdp.power_consumption, weight=-0.05),
            "joint_pos_limits": RewardTermCfg(
                func=ant_mdp.joint_pos_limits_penalty_ratio, weight=-0.1, params={"threshold": 0.99}
            ),
            "terminating": RewardTermCfg(func=mdp.terminated_penalty, weight=-2.0),
        },
        terminations={
            "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
            "torso_height": TerminationTermCfg(func=mdp.root_height_below_minimum, params={"minimum_height": 0.31}),
        },
        metrics={"success_rate": MetricTermCfg(func=mdp.survived, mode="last")},
    )
    if play:
        cfg.scene.num_envs = 4
    return cfg
