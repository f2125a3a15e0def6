"""Gymnasium's Hopper, Walker2d, HalfCheetah and Humanoid as tasks: run forwards, with its model files as they are.

    python scripts/gym_robots.py train Gym-HalfCheetah --device cpu
    python scripts/gym_robots.py play Gym-HalfCheetah

Time steps, weights of rewards and when a robot has fallen are those of gymnasium's environments, version 5.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial

import torch

from lab_core import mdp
from lab_core.agents import PPOCfg
from lab_core.env import Env
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from lab_core.registry import TaskSpec, register_task
from lab_core.scene import ArticulationCfg, CameraCfg, FileActuatorCfg, SceneCfg
from lab_newton import NewtonCfg


@dataclass(kw_only=True)
class Runner:
    """What is different between the robots."""

    file: str
    """Below the folder of gymnasium's model files."""
    dt: float
    """Physics step [s]."""
    decimation: int
    efforts: dict[str, float]
    """Joint names or regular expressions -> what an action of 1 does there: gear times range of the file [N m]."""
    effort_weight: float
    alive_weight: float = 1.0
    speed_weight: float = 1.0
    lowest: float = 0.0
    """Height of the root below which it has fallen [m]."""
    most_tilted: float = math.pi
    """Tilt beyond which it has fallen [rad]."""

    @property
    def asset(self) -> str:
        return f"gymnasium:envs/mujoco/assets/{self.file}"


RUNNERS = {
    "Hopper": Runner(
        file="hopper.xml",
        dt=0.002,
        decimation=4,
        efforts={"(thigh|leg|foot)_joint": 200.0},
        effort_weight=1e-3,
        lowest=0.7,
        most_tilted=0.2,
    ),
    "Walker2d": Runner(
        file="walker2d_v5.xml",
        dt=0.002,
        decimation=4,
        efforts={"(thigh|leg|foot)(_left)?_joint": 100.0},
        effort_weight=1e-3,
        lowest=0.8,
        most_tilted=1.0,
    ),
    "HalfCheetah": Runner(
        file="half_cheetah.xml",
        dt=0.01,
        decimation=5,
        efforts={"[bf]thigh": 120.0, "bshin": 90.0, "bfoot|fshin": 60.0, "ffoot": 30.0},
        effort_weight=0.1,
        alive_weight=0.0,
    ),
    "Humanoid": Runner(
        file="humanoid.xml",
        dt=0.003,
        decimation=5,
        efforts={"abdomen_.|.*_hip_[xz]": 40.0, ".*_hip_y": 120.0, ".*_knee": 80.0, ".*_(shoulder.|elbow)": 10.0},
        effort_weight=0.1,
        alive_weight=5.0,
        speed_weight=1.25,
        lowest=1.0,
    ),
}


def forward_speed(env: Env) -> torch.Tensor:
    """Speed of the root's centre of mass along the x axis of the world (N,) [m/s]."""
    return env.scene["robot"].data.root_com_vel_w[:, 0]


def env_cfg(runner: Runner, play: bool = False) -> ManagerBasedRLEnvCfg:
    """Returns a fresh task of a robot, with episodes of 1,000 environment steps, at most 20 s."""
    driven = tuple(runner.efforts)
    joints = {"asset_cfg": SceneEntityCfg("robot", joint_names=driven)}
    state: dict[str, ObservationTermCfg | None] = {
        "height": ObservationTermCfg(func=mdp.base_pos_z),
        "up": ObservationTermCfg(func=mdp.projected_gravity),
        "lin_vel": ObservationTermCfg(func=mdp.base_lin_vel),
        "ang_vel": ObservationTermCfg(func=mdp.base_ang_vel),
        "joint_pos": ObservationTermCfg(func=mdp.joint_pos, params=joints),
        "joint_vel": ObservationTermCfg(func=mdp.joint_vel, params=joints),
    }
    offsets = {"position_range": (-0.1, 0.1), "velocity_range": (-0.1, 0.1), **joints}
    return ManagerBasedRLEnvCfg(
        physics=NewtonCfg(dt=runner.dt),
        scene=SceneCfg(
            num_envs=1 if play else None,
            ground=None,  # each file has a floor
            entities={"robot": ArticulationCfg(asset=runner.asset, actuators={"motors": FileActuatorCfg()})},
            camera=CameraCfg(eye=(0.5, -4.0, 1.2), target=(0.5, 0.0, 0.6), follow="robot"),
        ),
        decimation=runner.decimation,
        episode_length_s=min(1000 * runner.dt * runner.decimation, 20.0),
        actions={"motors": mdp.JointEffortActionCfg(joint_names=driven, scale=runner.efforts)},
        observations={"policy": ObservationGroupCfg(terms=state)},
        events={
            "default": EventTermCfg(func=mdp.reset_scene_to_default, mode="reset"),
            "joints": EventTermCfg(func=mdp.reset_joints_by_offset, mode="reset", params=offsets),
        },
        rewards={
            "speed": RewardTermCfg(func=forward_speed, weight=runner.speed_weight),
            "alive": RewardTermCfg(func=mdp.is_alive, weight=runner.alive_weight),
            "effort": RewardTermCfg(func=mdp.action_l2, weight=-runner.effort_weight),
        },
        terminations={
            "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
            "low": TerminationTermCfg(func=mdp.root_height_below_minimum, params={"minimum_height": runner.lowest}),
            "tilted": TerminationTermCfg(func=mdp.bad_orientation, params={"limit_angle": runner.most_tilted}),
        },
    )


def ppo_cfg() -> PPOCfg:
    """Returns a fresh configuration of the learner."""
    return PPOCfg(
        obs_normalization=True,
        clip_actions=1.0,
        num_steps_per_env=64,
        max_iterations=300,
        actor_hidden_dims=(128, 64),
        critic_hidden_dims=(128, 64),
        entropy_coef=0.0,
    )


def register() -> list[TaskSpec]:
    """Makes the tasks known to ``lab`` in this process, and returns them."""
    specs = [
        TaskSpec(
            id=f"Gym-{name}",
            env_cfg=partial(env_cfg, runner),
            agents={"ppo": ppo_cfg},
            description=f"Run forwards with gymnasium's {name}.",
        )
        for name, runner in RUNNERS.items()
    ]
    for spec in specs:
        register_task(spec)
    return specs


if __name__ == "__main__":
    import gym_robots  # by its name: that is where a run looks for its terms later

    from lab_core.cli import main

    gym_robots.register()
    sys.exit(main())
