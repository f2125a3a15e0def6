"""Tracking motions with the Unitree G1 on flat ground, at 50 Hz.

Observations, rewards and disturbances are those of BeyondMimic (arXiv 2508.08241), but clips end as time-outs, and the
robot is compared as it is at the end of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from lab_core.scene import CameraCfg, SceneCfg
from lab_core.sensors import ContactSensorCfg
from lab_core.signals import UniformNoiseCfg
from lab_newton.config import MuJoCoSolverCfg, NewtonCfg
from lab_tasks.robots.g1 import g1_action_scale, g1_cfg
from lab_tasks.tracking import events, observations, rewards, terminations
from lab_tasks.tracking.actions import MotionJointPositionActionCfg
from lab_tasks.tracking.motion_command import MotionCommandCfg

COMMAND = "motion"
ANCHOR = "torso_link"
KEY_BODIES = (
    "pelvis",
    "left_hip_roll_link",
    "left_knee_link",
    "left_ankle_roll_link",
    "right_hip_roll_link",
    "right_knee_link",
    "right_ankle_roll_link",
    ANCHOR,
    "left_shoulder_roll_link",
    "left_elbow_link",
    "left_wrist_yaw_link",
    "right_shoulder_roll_link",
    "right_elbow_link",
    "right_wrist_yaw_link",
)
END_BODIES = ("left_ankle_roll_link", "right_ankle_roll_link", "left_wrist_yaw_link", "right_wrist_yaw_link")
_FEET = ".*_ankle_roll_link"
_VELOCITY = {
    "x": (-0.5, 0.5),
    "y": (-0.5, 0.5),
    "z": (-0.2, 0.2),
    "roll": (-0.52, 0.52),
    "pitch": (-0.52, 0.52),
    "yaw": (-0.78, 0.78),
}
"""Of pushes, and of what resets add to the motion [m/s, rad/s]."""


_NOISE = {
    "motion_anchor_pos": 0.25,
    "motion_anchor_ori": 0.05,
    "base_lin_vel": 0.5,
    "base_ang_vel": 0.2,
    "joint_pos": 0.01,
    "joint_vel": 0.5,
}
"""Observation of the policy -> largest error, in its unit."""


def g1_env_cfg(play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns the task with the demo motions of ``lab motion demo``; ``--env.commands.motion.clips`` takes others.

    A step's rewards for tracking add up to 5 per second at best. Actions move joint targets around those of the motion,
    with ``--env.actions.joint_pos.use-default-offset`` around the default pose.

    Args:
        play: Few environments without disturbances, each clip from its beginning to its end.
    """
    cfg = ManagerBasedRLEnvCfg(
        # Three times the rows and contacts that random actions and falls without an end need.
        physics=NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=250, nconmax=40)),
        scene=SceneCfg(
            num_envs=4096,
            env_spacing=2.5,
            entities={"robot": g1_cfg()},
            sensors={"self_contact": ContactSensorCfg(filter_entities=("robot",), history_length=4)},
            camera=CameraCfg(eye=(2.4, -2.4, 1.2), target=(0.0, 0.0, 0.7), follow="robot"),
        ),
        decimation=4,
        episode_length_s=10.0,
        commands={COMMAND: MotionCommandCfg(body_names=KEY_BODIES, anchor_body=ANCHOR)},
        actions={
            "joint_pos": MotionJointPositionActionCfg(joint_names=".*", scale=g1_action_scale(), command_name=COMMAND)
        },
        observations={
            "policy": ObservationGroupCfg(enable_corruption=True, terms=_observations(is_critic=False)),
            "critic": ObservationGroupCfg(terms=_observations(is_critic=True)),
        },
        events=_events(),
        rewards=_rewards(),
        terminations=_terminations(),
    )
    if play:
        make_undisturbed(cfg)
        cfg.scene.num_envs = 4
    return cfg


def make_undisturbed(cfg: ManagerBasedRLEnvCfg) -> None:
    """Takes noise, pushes and randomisation away; episodes last from the beginning of a clip to its end."""
    for group in cfg.observations.values():
        assert group is not None
        group.enable_corruption = False
    for name in ("push_robot", "foot_friction", "default_joint_pos", "torso_com"):
        cfg.events[name] = None
    reset = cfg.events["reset_to_motion"]
    assert reset is not None
    nothing = {"pose_range": {}, "velocity_range": {}, "joint_position_range": (0.0, 0.0)}
    reset.params = {**reset.params, **nothing, "from_first_frame": True}
    cfg.terminations["time_out"] = None


def _observations(is_critic: bool) -> dict[str, ObservationTermCfg | None]:
    """Terms in their order: 160 numbers, with those of the critic's own 286."""
    command = {"command_name": COMMAND}
    terms = {
        "motion_joints": _observation(mdp.generated_commands, **command),
        "motion_anchor_pos": _observation(observations.motion_anchor_pos_b, **command),
        "motion_anchor_ori": _observation(observations.motion_anchor_ori_b, **command),
        "body_pos": _observation(observations.robot_body_pos_b, **command),
        "body_ori": _observation(observations.robot_body_ori_b, **command),
        "base_lin_vel": _observation(observations.root_link_lin_vel),
        "base_ang_vel": _observation(mdp.base_ang_vel),
        "joint_pos": _observation(mdp.joint_pos_rel),
        "joint_vel": _observation(mdp.joint_vel_rel),
        "actions": _observation(mdp.last_action),
    }
    if not is_critic:
        del terms["body_pos"], terms["body_ori"]
        for name, bound in _NOISE.items():
            terms[name].noise = UniformNoiseCfg(n_min=-bound, n_max=bound)
    return {**terms}


def _observation(func: Callable[..., torch.Tensor], **params: str) -> ObservationTermCfg:
    return ObservationTermCfg(func=func, params=dict(params))


def _events() -> dict[str, EventTermCfg | None]:
    return {
        "foot_friction": EventTermCfg(
            func=mdp.randomize_rigid_body_material,
            mode="startup",
            params={"friction_range": (0.3, 1.2), "asset_cfg": SceneEntityCfg(body_names=_FEET)},
        ),
        "default_joint_pos": EventTermCfg(
            func=events.randomize_default_joint_pos, mode="startup", params={"offset_range": (-0.01, 0.01)}
        ),
        "torso_com": EventTermCfg(
            func=mdp.randomize_rigid_body_com,
            mode="startup",
            params={
                "com_range": {"x": (-0.025, 0.025), "y": (-0.05, 0.05), "z": (-0.05, 0.05)},
                "asset_cfg": SceneEntityCfg(body_names=ANCHOR),
            },
        ),
        "reset_to_motion": EventTermCfg(
            func=events.reset_to_motion,
            mode="reset",
            params={
                "command_name": COMMAND,
                "pose_range": {
                    "x": (-0.05, 0.05),
                    "y": (-0.05, 0.05),
                    "z": (-0.01, 0.01),
                    "roll": (-0.1, 0.1),
                    "pitch": (-0.1, 0.1),
                    "yaw": (-0.2, 0.2),
                },
                "velocity_range": dict(_VELOCITY),
                "joint_position_range": (-0.1, 0.1),
            },
        ),
        "push_robot": EventTermCfg(
            func=mdp.push_by_setting_velocity,
            mode="interval",
            interval_range_s=(1.0, 3.0),
            params={"velocity_range": dict(_VELOCITY)},
        ),
    }


def _rewards() -> dict[str, RewardTermCfg | None]:
    def tracking(func: Callable[..., torch.Tensor], weight: float, std: float) -> RewardTermCfg:
        return RewardTermCfg(func=func, weight=weight, params={"command_name": COMMAND, "std": std})

    return {
        "motion_anchor_pos": tracking(rewards.anchor_pos_exp, 0.5, 0.3),
        "motion_anchor_ori": tracking(rewards.anchor_ori_exp, 0.5, 0.4),
        "motion_body_pos": tracking(rewards.body_pos_exp, 1.0, 0.3),
        "motion_body_ori": tracking(rewards.body_ori_exp, 1.0, 0.4),
        "motion_body_lin_vel": tracking(rewards.body_lin_vel_exp, 1.0, 1.0),
        "motion_body_ang_vel": tracking(rewards.body_ang_vel_exp, 1.0, math.pi),
        "action_rate": RewardTermCfg(func=mdp.action_rate_l2, weight=-0.1),
        "joint_limits": RewardTermCfg(func=mdp.joint_pos_limits, weight=-10.0),
        "self_collision": RewardTermCfg(
            func=rewards.self_collision,
            weight=-10.0 * 4,  # 10 for each physics step of a step
            params={"sensor_cfg": mdp.SceneSensorCfg("self_contact"), "threshold": 10.0},
        ),
    }


def _terminations() -> dict[str, TerminationTermCfg | None]:
    command = {"command_name": COMMAND}
    return {
        "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
        "clip_ended": TerminationTermCfg(func=mdp.clip_ended, time_out=True, params=dict(command)),
        "anchor_height": TerminationTermCfg(func=terminations.bad_anchor_height, params={**command, "threshold": 0.25}),
        "anchor_tilt": TerminationTermCfg(func=terminations.bad_anchor_tilt, params={**command, "threshold": 0.8}),
        "body_heights": TerminationTermCfg(
            func=terminations.bad_body_heights,
            params={**command, "body_names": END_BODIES, "threshold": 0.25},
        ),
    }
