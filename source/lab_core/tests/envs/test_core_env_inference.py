"""Environments inside and outside of torch's inference mode, in any order: what one creates the other can write."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import EventTermCfg, ManagerTermBase, ObservationTermCfg, RewardTermCfg
from lab_core.signals import NoiseWithBiasCfg, UniformNoiseCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 4
NOISE = UniformNoiseCfg(n_min=-0.1, n_max=0.1)


class count(ManagerTermBase):
    """Steps of the episode."""

    def __init__(self, cfg, env) -> None:
        super().__init__(cfg, env)
        self.steps = torch.zeros(env.num_envs)

    def reset(self, mask: torch.Tensor) -> None:
        self.steps.masked_fill_(mask, 0.0)

    def __call__(self, env, by: float) -> torch.Tensor:
        return self.steps.add_(by)


def build() -> ManagerBasedRLEnv:
    """With memory of every kind."""
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=3 / 60)
    ranges = mdp.UniformVelocityRanges(lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0), ang_vel_z=(-1.0, 1.0))
    cfg.commands["velocity"] = mdp.UniformVelocityCommandCfg(resampling_time_range=(0.03, 0.05), ranges=ranges)
    policy = cfg.observations["policy"]
    policy.enable_corruption = True
    policy.terms["joint_pos_rel"] = ObservationTermCfg(
        func=mdp.joint_pos_rel, noise=NOISE, delay_max_lag=2, delay_hold_prob=0.3, history_length=3, scale=(1.0, 2.0)
    )
    gains = {"damping_distribution_params": (5.0, 15.0)}
    cfg.events["gains"] = EventTermCfg(func=mdp.randomize_actuator_gains, params=gains)
    cfg.rewards["count"] = RewardTermCfg(func=count, params={"by": 1.0})
    return cfg.build()


def use(env: ManagerBasedRLEnv) -> None:
    """Everything that creates or writes what lasts."""
    env.step(torch.zeros(N, 1))
    env.reset(mask=[1])
    env.reset_to(env.scene.get_state(), mask=[2])
    env.load_state_dict(env.state_dict())
    env.episode_length_buf = torch.tensor([0, 0, 2, 2])
    position = copy.deepcopy(env.observation_manager.get_term_cfg("policy/joint_pos_rel"))
    position.noise = NoiseWithBiasCfg(noise=NOISE, bias=NOISE) if position.noise == NOISE else NOISE
    env.observation_manager.set_term_cfg("policy/joint_pos_rel", position)
    reward = env.reward_manager.get_term_cfg("count")
    env.reward_manager.set_term_cfg("count", RewardTermCfg(func=count, params={"by": -reward.params["by"]}))
    env.command_manager.get_term("velocity").set_command([0.0, 0.0, 0.0])
    env.step(torch.ones(N, 1))
    env.command_manager.get_term("velocity").set_command(None)


@pytest.mark.parametrize("order", list(itertools.product((True, False), repeat=3)))
def test_an_environment_can_be_used_in_any_order_of_contexts(order):
    with torch.inference_mode(order[0]):
        env = build()
    for inference in order[1:] * 2:
        with torch.inference_mode(inference):
            use(env)


def test_no_gradient_is_recorded():
    env = build()
    action = torch.ones(N, 1, requires_grad=True)
    observations, reward, *_ = env.step(action)
    assert not observations["policy"].requires_grad and not reward.requires_grad
