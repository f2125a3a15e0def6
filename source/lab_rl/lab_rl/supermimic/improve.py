"""Improving policy and critic on imagined rollouts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from lab_core.agents import SuperMimicCfg
from lab_rl.cuda_graph import CapturedCall
from lab_rl.fused import fused
from lab_rl.supermimic.networks import Actor, Critic, frozen
from lab_rl.supermimic.optimizer import GuardedOptimizer
from lab_rl.supermimic.replay import Replay, WindowBatch
from lab_rl.supermimic.returns import RolloutEnds
from lab_rl.supermimic.rollout import Imaginer, RolloutInputs
from lab_rl.supermimic.state import RobotState
from lab_rl.supermimic.task import TrackingTask
from lab_rl.supermimic.world_model import WorldModel

FIGURES = ("return", "reward", "failures", "value_loss")
"""What an update reports: mean imagined return, mean reward of a step, share of rollouts that fail, loss of the
critic."""


class PolicyUpdate:
    """Updates a policy by the gradient of imagined returns through the world model, and the critic of those returns.

    The world model is frozen: gradients go through it, none reach its parameters.

    Args:
        actor: To improve.
        critic: To improve.
        model: The world model.
        task: What rollouts are imagined of.
        replay: Where they begin.
        cfg: Settings.
        context: (N, C) in place.
        noise_std: (D,) standard deviation of the noise on observations in the simulation.
        generator: Of the noise.
    """

    def __init__(
        self,
        actor: Actor,
        critic: Critic,
        model: WorldModel,
        task: TrackingTask,
        replay: Replay,
        cfg: SuperMimicCfg,
        context: Tensor,
        noise_std: Tensor,
        generator: torch.Generator,
    ) -> None:
        self.actor, self.critic, self.cfg = actor, critic, cfg
        self.averaged = copy.deepcopy(actor).requires_grad_(False)
        """The policy that is evaluated and exported."""
        self.target = copy.deepcopy(critic).requires_grad_(False)
        # What networks are shown is standardised in one way only.
        self.averaged.normalizer, self.target.normalizer = actor.normalizer, critic.normalizer
        self.update_count = 0
        self._task, self._replay, self._context = task, replay, context
        self._generator, self._noise_std = generator, cfg.observation_noise * noise_std
        device = replay.device
        matrices = actor.network.hidden_matrices() if cfg.optimizer == "muon" else ()
        self.actor_optimizer = GuardedOptimizer(
            actor.parameters(), cfg.learning_rate, cfg.max_grad_norm,
            matrices=matrices, matrix_learning_rate=cfg.muon_learning_rate,
        )  # fmt: skip
        self.critic_optimizer = GuardedOptimizer(critic.parameters(), cfg.critic_learning_rate, cfg.max_grad_norm)
        self._batch = WindowBatch(replay, 1, cfg.batch_size)
        self._inputs = RolloutInputs(task, cfg.horizon, cfg.batch_size, len(noise_std))
        self._new_share = torch.zeros((), device=device)
        limit = cfg.max_state_gradient
        limit = None if limit is None else limit / (cfg.horizon * cfg.batch_size)

        def fuse(function: Any) -> Any:
            return fused(function, device, cfg.fused)

        self.imagine = Imaginer(task, frozen(model), actor, limit, fuse)
        self._train_actor = CapturedCall(self._improve, device, cfg.captured)
        self._train_critic = CapturedCall(self._fit_critic, device, cfg.captured)
        self._learned: tuple[Tensor, Tensor, Tensor] | None = None
        self.left_out = torch.zeros((), dtype=torch.int64, device=device)
        """0-d, rollouts so far that began with a number that is not finite."""

    def update(self, mark: Callable[[str], None] = lambda part: None) -> Tensor:
        """Makes one update and returns :data:`FIGURES` (4,), on the device.

        Args:
            mark: Called when a part, ``policy`` or ``critic``, was handed to the device.
        """
        self.update_count += 1
        # Early on the average would remember the random beginning.
        decay = min(self.cfg.ema_decay, (1.0 + self.update_count) / (10.0 + self.update_count))
        self._new_share.fill_(1.0 - decay)
        self.draw()
        figures = self._train_actor()
        mark("policy")
        value_loss = self._train_critic()
        mark("critic")
        return torch.cat([figures, value_loss.unsqueeze(0)])

    def draw(self) -> RolloutInputs:
        """Draws where rollouts begin, and their noise, and returns both."""
        inputs, values = self._inputs, self._batch.values
        self._replay.draw_steps(self._batch)
        com = self._task.root_com(self._batch.env_ids)
        state = RobotState.from_articulation(self._batch.state("start"), com.unsqueeze(0)).map(lambda part: part[0])
        reference = values["reference/clip"][0], values["reference/frame"][0]
        inputs.fill(state, values["action/before"][0], self._batch.env_ids, *reference)
        self.left_out.add_((~inputs.finite).sum())
        inputs.action_noise.normal_(std=self.cfg.imagined_noise, generator=self._generator)
        inputs.observation_noise.normal_(generator=self._generator).mul_(self._noise_std)
        return inputs

    def forget(self) -> None:
        """Lets the next updates be captured anew."""
        self._train_actor.forget()
        self._train_critic.forget()

    def _improve(self) -> Tensor:
        """Makes an update of the policy and returns the first :data:`FIGURES`."""
        with self._autocast():
            rollout = self.imagine(self._inputs, self._context)
            objective, targets, alive, figures = self.score(
                rollout.reward, rollout.terminated, rollout.clip_ended, rollout.critic_inputs, self._inputs.finite
            )
        grads = torch.autograd.grad(-objective, self.actor_optimizer.parameters)
        _assign(self.actor_optimizer, grads)
        self.actor_optimizer.step(self._inputs.finite.any())
        self._learned = rollout.critic_inputs[:-1].detach(), targets, alive
        return figures

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._replay.device.type, torch.bfloat16, enabled=self.cfg.precision == "bf16")

    def score(
        self, reward: Tensor, terminated: Tensor, clip_ended: Tensor, critic_inputs: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the mean discounted return per step () with gradients, the targets of the critic (H, B), where
        they count (H, B), and the first :data:`FIGURES`.

        Args:
            reward: (H, B) and so on, of a :class:`Rollout`.
            counts: (B,) bool, rollouts that count.
        """
        cfg = self.cfg
        ends = RolloutEnds.find(terminated, clip_ended, counts)
        reward = cfg.reward_scale * reward
        next_value = self.target(critic_inputs[1:])
        returns = ends.returns(reward, next_value, cfg.gamma)
        objective = returns.sum() / (counts.sum().clamp(min=1) * cfg.horizon)
        targets = ends.td_lambda(reward, next_value, cfg.gamma, cfg.lam)
        failures = (terminated & (ends.alive > 0)).any(0).float().mean()
        mean_reward = (ends.alive * reward.detach()).sum() / ends.alive.sum().clamp(min=1.0)
        figures = torch.stack([objective.detach() * cfg.horizon, mean_reward, failures])
        return objective, targets, ends.alive, figures

    def _value_loss(self, shown: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        error = self.critic(shown) - target
        return (weight * error.square()).sum() / weight.sum().clamp(min=1.0)

    def _fit_critic(self) -> Tensor:
        """Takes mini-batches of the latest rollouts, which were drawn at random, moves the averages on, and returns the
        mean loss ()."""
        assert self._learned is not None
        losses = []
        for _ in range(self.cfg.critic_epochs):
            parts = (values.tensor_split(self.cfg.critic_mini_batches, dim=1) for values in self._learned)
            for shown, target, weight in zip(*parts, strict=True):
                with self._autocast():
                    loss = self._value_loss(shown, target, weight)
                _assign(self.critic_optimizer, torch.autograd.grad(loss, self.critic_optimizer.parameters))
                self.critic_optimizer.step((weight > 0).any())
                losses.append(loss.detach())
        self._average()
        return torch.stack(losses).mean()

    @torch.no_grad()
    def _average(self) -> None:
        for mean, new in zip(self.averaged.network.parameters(), self.actor.network.parameters(), strict=True):
            mean.lerp_(new, self._new_share)
        for mean, new in zip(self.target.network.parameters(), self.critic.network.parameters(), strict=True):
            mean.lerp_(new, 1.0 - self.cfg.target_decay)

    def state_dict(self) -> dict[str, Any]:
        """Returns networks, optimisers and counts."""
        return {
            **{name: getattr(self, name).state_dict() for name in _PARTS},
            "left_out": self.left_out,
            "update_count": self.update_count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what :meth:`state_dict` returned."""
        for name in _PARTS:
            getattr(self, name).load_state_dict(state[name])
        self.left_out.copy_(state["left_out"])
        self.update_count = state["update_count"]


_PARTS = ("actor", "averaged", "critic", "target", "actor_optimizer", "critic_optimizer")


def _assign(optimizer: GuardedOptimizer, grads: tuple[Tensor, ...]) -> None:
    for parameter, grad in zip(optimizer.parameters, grads, strict=True):
        parameter.grad = grad
