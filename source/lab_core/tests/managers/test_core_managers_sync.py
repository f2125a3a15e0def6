"""A step never asks the device for a number: on a GPU each such question would stop the whole pipeline."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import CurriculumTermCfg, EventTermCfg, MetricTermCfg, ObservationTermCfg, RewardTermCfg
from lab_core.signals import IntegratorCfg, UniformNoiseCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

QUESTIONS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "unique", "equal")


class NoQuestions(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in QUESTIONS:
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    """An environment with a term of every kind; episodes end within a few steps."""
    cfg = analytic_cartpole_env_cfg(num_envs=5, episode_length_s=0.1)
    cfg.observations["policy"].enable_corruption = True
    cfg.observations["policy"].terms["rich"] = ObservationTermCfg(
        func=mdp.joint_pos,
        modifiers=[IntegratorCfg(dt=0.1)],
        noise=UniformNoiseCfg(n_min=-1.0, n_max=1.0),
        clip=(-1.0, 1.0),
        scale=(1.0, 2.0),
        delay_max_lag=2,
        delay_hold_prob=0.1,
        history_length=3,
    )
    cfg.observations["policy"].terms["command"] = ObservationTermCfg(
        func=mdp.generated_commands, params={"command_name": "velocity"}
    )
    ranges = mdp.UniformVelocityRanges(
        lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), ang_vel_z=(-1.0, 1.0), heading=(-1.0, 1.0)
    )
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(
        resampling_time_range=(0.02, 0.05), ranges=ranges, heading_command=True
    )
    gains = {"damping_distribution_params": (5.0, 10.0)}
    cfg.events["gains"] = EventTermCfg(func=mdp.randomize_actuator_gains, params=gains, min_step_count_between_reset=3)
    cfg.events["often"] = EventTermCfg(
        func=mdp.randomize_actuator_gains, mode="interval", interval_range_s=(0.02, 0.05), params=gains
    )
    cfg.rewards["off"] = RewardTermCfg(func=mdp.action_l2, weight=0.0)
    cfg.metrics["effort"] = MetricTermCfg(func=mdp.joint_torques_l2, mode="max")
    cfg.curriculum["weight"] = CurriculumTermCfg(
        func=mdp.modify_reward_weight, params={"term_name": "off", "weight": -0.1, "num_steps": 4}
    )
    return cfg.build()


def test_questions_are_noticed():
    with pytest.raises(AssertionError, match="waits for the device"), NoQuestions():
        torch.ones(3).sum().item()


def test_step_asks_nothing(env, monkeypatch):
    monkeypatch.setattr("lab_core.envs.first_steps.LOOKS", ())  # those that wait on purpose
    env.action_manager._check._raise_at_once = False  # as on a GPU
    resets = 0
    for _ in range(10):
        with NoQuestions():
            *_, extras = env.step(torch.ones(5, 1))
        resets += int(extras["reset_count"])
    assert resets >= 5
    assert env.reward_manager.weights["off"] == -0.1
