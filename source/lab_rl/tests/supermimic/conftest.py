"""A cart that follows clips: a tracking task that learns in seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch

from lab_core import mdp
from lab_core.agents import SuperMimicCfg, WorldModelCfg
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    TerminationTermCfg,
    declare,
)
from lab_core.mdp import ClipCommandCfg, ClipCommandTerm, ClipReference
from lab_core.testing import analytic_cartpole_env_cfg


@dataclass(kw_only=True)
class CartReference(ClipReference):
    """Where the cart should be, and how fast."""

    position: torch.Tensor
    """(K, 1) [m]."""


@dataclass(kw_only=True)
class CartCommandCfg(ClipCommandCfg):
    def build(self, env) -> CartCommand:
        return CartCommand(self, env)


class CartCommand(ClipCommandTerm):
    """Two clips of the cart's position: a slow and a fast swing of 0.6 m."""

    def __init__(self, cfg: CartCommandCfg, env) -> None:
        time = torch.arange(240) * env.step_dt
        clips = torch.stack([0.6 * torch.sin(rate * time) for rate in (1.0, 2.0)])
        self._clips = clips.to(env.device)
        super().__init__(cfg, env, ("slow", "fast"), (240, 180), num_components=2)
        self._clips = self.scratch(self._clips)
        self._dt = env.step_dt

    def _reference(self, clip, frame, at_end) -> CartReference:
        position, later = self._clips[clip, frame], self._clips[clip, (frame + 1).clamp(max=239)]
        command = torch.stack((position, (later - position) * 60.0), dim=1)
        return CartReference(clip=clip, frame=frame, at_end=at_end, command=command, position=position[:, None])

    @property
    def position(self) -> torch.Tensor:
        return self._command[:, :1]

    def update_metrics(self) -> None:
        pass


def start_at_frame(env, mask) -> None:
    """Draws clip and frame and puts the cart there, the pole hanging."""
    command = env.command_manager.get_term("motion")
    clip, frame = command.sampler.draw(env.generator, env.num_envs)
    command.start_at(mask, clip, frame)
    data, rows = env.scene["robot"].data, mask.unsqueeze(1)
    target = command.reference(clip, frame).command
    data.joint_pos.copy_(torch.where(rows, torch.stack((target[:, 0], torch.full_like(target[:, 0], math.pi)), 1),
                                     data.joint_pos))  # fmt: skip
    data.joint_vel.copy_(torch.where(rows, torch.stack((target[:, 1], torch.zeros_like(target[:, 1])), 1),
                                     data.joint_vel))  # fmt: skip
    env.physics.written.logical_or_(mask)


def _error(env) -> torch.Tensor:
    return env.scene["robot"].data.joint_pos[:, :1] - env.command_manager.get_term("motion").position


@declare(differentiable=True)
def track_cart(env) -> torch.Tensor:
    return torch.exp(-(_error(env).square().sum(-1)) / 0.1**2)


@declare(differentiable=True)
def cart_is_lost(env) -> torch.Tensor:
    return _error(env).abs()[:, 0] > 0.4


def cart_env_cfg(num_envs: int = 32) -> ManagerBasedRLEnvCfg:
    cfg = analytic_cartpole_env_cfg(num_envs=num_envs, episode_length_s=2.0)
    cfg.commands = {"motion": CartCommandCfg()}
    cfg.observations["policy"] = ObservationGroupCfg(
        terms={
            "reference": ObservationTermCfg(func=mdp.generated_commands, params={"command_name": "motion"}),
            "joint_pos": ObservationTermCfg(func=mdp.joint_pos_rel),
            "joint_vel": ObservationTermCfg(func=mdp.joint_vel_rel),
            "last_action": ObservationTermCfg(func=mdp.last_action),
        }
    )
    cfg.events = {"start": EventTermCfg(func=start_at_frame, mode="reset")}
    cfg.rewards = {"track": RewardTermCfg(func=track_cart, weight=60.0)}
    cfg.terminations = {
        "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
        "clip_ended": TerminationTermCfg(func=mdp.clip_ended, params={"command_name": "motion"}, time_out=True),
        "lost": TerminationTermCfg(func=cart_is_lost),
    }
    return cfg


SETTINGS = SuperMimicCfg(
    world_model=WorldModelCfg(
        hidden_dims=(64, 64), horizon=8, first_horizon=4, first_updates=60, batch_size=128, holdout_share=0.1
    ),
    max_iterations=100,
    replay_steps=128,
    save_replay=True,
    warmup_steps=32,
    warmup_noise=1.0,
    warmup_updates=80,
    actor_hidden_dims=(32, 32),
    critic_hidden_dims=(32, 32),
    batch_size=64,
    horizon=12,
    learning_rate=2e-3,
    ema_decay=0.95,
    fused=False,
)


@pytest.fixture
def cart_cfg():
    """Makes configurations of the task, given the number of environments."""
    return cart_env_cfg


@pytest.fixture
def settings():
    """Makes small settings, with changes."""

    def make(**changes) -> SuperMimicCfg:
        model = changes.pop("world_model", {})
        return replace(SETTINGS, world_model=replace(SETTINGS.world_model, **model), **changes)

    return make
