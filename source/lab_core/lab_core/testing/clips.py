"""The analytic cart-pole as a task of following clips: the smallest clip command there is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from lab_core import mdp
from lab_core.env import Env, ManagerBasedEnv
from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import EventTermCfg, ObservationTermCfg, RewardTermCfg, TerminationTermCfg, declare
from lab_core.mdp import ClipCommandCfg, ClipCommandTerm, ClipReference
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


@dataclass(kw_only=True)
class CartClipCommandCfg(ClipCommandCfg):
    """See :class:`CartClipCommand`."""

    clips: dict[str, int] = field(default_factory=lambda: {"slow": 40, "fast": 90, "still": 25})
    """Name of each clip -> its frames; the k-th swings the cart with k + 1 tenths of a hertz."""
    amplitude: float = 0.5
    """[m]."""

    def build(self, env: Env) -> CartClipCommand:
        return CartClipCommand(self, env)


@dataclass(kw_only=True)
class CartReference(ClipReference):
    """Where the cart is to be."""

    position: torch.Tensor
    """(K,) [m]."""


class CartClipCommand(ClipCommandTerm):
    """Positions and velocities of the cart (N, 2) [m, m/s]."""

    cfg: CartClipCommandCfg

    def __init__(self, cfg: CartClipCommandCfg, env: Env) -> None:
        super().__init__(cfg, env, tuple(cfg.clips), tuple(cfg.clips.values()), num_components=2)
        self.metrics["error"] = torch.zeros(env.num_envs, device=env.device)
        """(N,) distance of the cart from the frame that was shown in the latest step [m]."""

    @property
    def position(self) -> torch.Tensor:
        return self.command[:, 0]

    def _reference(self, clip: torch.Tensor, frame: torch.Tensor, at_end: torch.Tensor) -> CartReference:
        rate = 2.0 * math.pi * 0.1 * (clip + 1)
        phase = rate * frame * self._env.step_dt
        position = self.cfg.amplitude * torch.sin(phase)
        command = torch.stack((position, self.cfg.amplitude * rate * torch.cos(phase)), dim=1)
        return CartReference(clip=clip, frame=frame, at_end=at_end, command=command, position=position)

    def update_metrics(self) -> None:
        cart = self._env.scene["robot"].data.joint_pos[:, 0]
        self.metrics["error"].copy_((cart - self.position).abs())


def reset_to_clip(env: ManagerBasedEnv, mask: torch.Tensor, command_name: str) -> None:
    """Draws clips and frames, and puts the carts there."""
    term = env.command_manager.get_term(command_name)
    assert isinstance(term, ClipCommandTerm)
    clip, frame = term.sampler.draw(env.generator, env.num_envs)
    term.start_at(mask, clip, frame)
    pole = torch.zeros(env.num_envs, device=env.device)
    position, velocity = (torch.stack((row, pole), dim=1) for row in term.command.unbind(1))
    env.scene["robot"].write_joint_state(position, velocity, mask)


@declare(differentiable=True)
def cart_tracked(env: ManagerBasedEnv, command_name: str, std: float = 0.3) -> torch.Tensor:
    """exp(-(cart position - that of the frame)^2 / std^2) (N,)."""
    command = env.command_manager.get_term(command_name)
    assert isinstance(command, (CartClipCommand, CartReference))
    error = env.scene["robot"].data.joint_pos[:, 0] - command.position
    return torch.exp(-((error / std) ** 2))


def clip_cartpole_env_cfg(num_envs: int = 8, episode_length_s: float = 5.0) -> ManagerBasedRLEnvCfg:
    """Returns the cart-pole task with a command ``motion``; episodes begin on a frame and end with its clip."""
    cfg = analytic_cartpole_env_cfg(num_envs, episode_length_s)
    named = {"command_name": "motion"}
    cfg.commands = {"motion": CartClipCommandCfg()}
    cfg.observations["policy"].terms["motion"] = ObservationTermCfg(func=mdp.generated_commands, params=dict(named))
    cfg.rewards = {"tracked": RewardTermCfg(func=cart_tracked, weight=1.0, params=dict(named))}
    cfg.terminations["clip_ended"] = TerminationTermCfg(func=mdp.clip_ended, time_out=True, params=dict(named))
    cfg.events = {"reset_to_clip": EventTermCfg(func=reset_to_clip, mode="reset", params=dict(named))}
    return cfg
