"""Rollouts that the world model imagines, and what the task's terms say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lab_rl.supermimic.state import RobotState
from lab_rl.supermimic.task import TrackingTask
from lab_rl.supermimic.world_model import WorldModel

Act = Callable[[Tensor], Tensor]


class RolloutInputs:
    """What B rollouts of H steps begin with, in memory that stays where it is.

    Args:
        task: Gives sizes.
        horizon: H.
        batch_size: B.
        num_observations: D, of the policy.
    """

    def __init__(self, task: TrackingTask, horizon: int, batch_size: int, num_observations: int) -> None:
        self.horizon, self.batch_size = horizon, batch_size
        device, joints = task.env.device, task.motion.num_joints

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(*shape, dtype=dtype, device=device)

        self.state = RobotState(*(zeros(batch_size, width) for width in (3, 4, 3, 3, joints, joints)))
        """(B, ...) first states."""
        self.prev_action = zeros(batch_size, task.num_actions)
        """(B, A) action of the step before."""
        self.env_ids = zeros(batch_size, dtype=torch.int64)
        """(B,) environments whose settings they have."""
        self.clip, self.frame = zeros(batch_size, dtype=torch.int64), zeros(batch_size, dtype=torch.int64)
        """(B,) int64, what the policy is shown first."""
        self.finite = zeros(batch_size, dtype=torch.bool)
        """(B,) bool, rollouts that count; the others begin at zero."""
        self.action_noise = zeros(horizon, batch_size, task.num_actions)
        self.observation_noise = zeros(horizon, batch_size, num_observations)

    def fill(self, state: RobotState, prev_action: Tensor, env_ids: Tensor, clip: Tensor, frame: Tensor) -> None:
        """Takes over B beginnings; those with a number that is not finite are marked."""
        self.finite.copy_(torch.cat((*state.tensors(), prev_action), dim=-1).isfinite().all(dim=-1))
        rows = self.finite.unsqueeze(1)
        for own, given in zip(self.state.tensors(), state.tensors(), strict=True):
            own.copy_(torch.where(rows, given, 0.0))
        self.state.quat[:, 3:].add_(~rows)
        self.prev_action.copy_(torch.where(rows, prev_action, 0.0))
        self.env_ids.copy_(env_ids)
        self.clip.copy_(clip)
        self.frame.copy_(frame)


@dataclass(frozen=True)
class Rollout:
    """B rollouts of H steps, and what they earn."""

    reward: Tensor
    """(H, B) of each step, with gradients."""
    terminated: Tensor
    """(H, B) bool, whether the step ends in a failure."""
    clip_ended: Tensor
    """(H, B) bool, whether its frame is the last one of the clip, so that no other step follows."""
    critic_inputs: Tensor
    """(H + 1, B, D) what the critic is shown in each state, with gradients."""
    actions: Tensor
    """(H, B, A)."""


class Imaginer:
    """Lets a policy act in the world model.

    Rewards, terminations and the critic's observations are computed for all steps at once behind a rollout, since
    nothing in the rollout reads them. A step, and what is computed behind, are functions of tensors that may be fused.

    Args:
        task: Whose terms are evaluated.
        model: The world model; to be frozen, since a gradient for what is not would be computed in vain.
        act: Observations (B, D) -> actions (B, A).
        limit: Largest norm of the gradient that is handed from a state to the one before; None: any.
        fuse: Makes few kernels of a function.
    """

    def __init__(
        self,
        task: TrackingTask,
        model: WorldModel,
        act: Act,
        limit: float | None = None,
        fuse: Callable[[Any], Any] = lambda function: function,
    ) -> None:
        self._task, self._model, self._act, self._limit = task, model, act, limit
        self._fused_step, self._fused_evaluate = fuse(self._step), fuse(self._evaluate)

    def __call__(self, inputs: RolloutInputs, context: Tensor) -> Rollout:
        """Returns the rollouts that begin with ``inputs``; ``context`` (N, C) is that of all environments."""
        own_context = context.index_select(0, inputs.env_ids).to(inputs.prev_action.dtype)
        # What the first step is given has a gradient as that of the others has: one compiled function for all.
        state = tuple(part.detach().requires_grad_() for part in inputs.state.tensors())
        first, before = (inputs.prev_action.detach().requires_grad_() for _ in range(2))
        # The action before the one before is known from the second step on, and hardly any term observes it.
        states, actions, logits = [state], [before, first], []
        for step in range(inputs.horizon):
            state, action, logit = self._fused_step(
                states[-1], actions[-1], actions[-2], inputs.env_ids, inputs.clip, inputs.frame + step, own_context,
                inputs.observation_noise[step], inputs.action_noise[step],
            )  # fmt: skip
            states.append(state)
            actions.append(action)
            logits.append(logit)
        path = tuple(torch.stack(parts) for parts in zip(*states, strict=True))
        acted = torch.stack(actions[1:])  # (H + 1, ...), the first is that before
        happened = torch.stack(logits)
        found = self._fused_evaluate(path, acted, happened, inputs.env_ids, inputs.clip, inputs.frame, own_context)
        return Rollout(*found, actions=acted[1:])

    def _step(
        self,
        parts: tuple[Tensor, ...],
        action: Tensor,
        prev_action: Tensor,
        env_ids: Tensor,
        clip: Tensor,
        frame: Tensor,
        context: Tensor,
        observation_noise: Tensor,
        action_noise: Tensor,
    ) -> tuple[tuple[Tensor, ...], Tensor, Tensor]:
        """Returns the next state, the action that leads to it, and logits of events."""
        if self._limit is not None:
            parts = _LimitGradient.apply(self._limit, *parts)
        state, task = RobotState(*parts), self._task
        view = task.view(state, env_ids, action, prev_action, task.command.reference(clip, frame))
        observation = task.observe(view, task.actor_groups) + observation_noise
        action = self._act(observation) + action_noise
        following, logits = self._model(state, task.targets(view, action), context)
        return following.tensors(), action, logits

    def _evaluate(
        self,
        parts: tuple[Tensor, ...],
        acted: Tensor,
        logits: Tensor,
        env_ids: Tensor,
        clip: Tensor,
        frame: Tensor,
        context: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns what a :class:`Rollout` has but for actions, from states and actions (H + 1, B, ...).

        Both views are of all states, so that bodies are computed once: the one of rewards has a row too many for each
        rollout, that of its beginning.
        """
        task, horizon, batch = self._task, len(logits), len(clip)
        rows, clips = (ids.expand(horizon + 1, batch).flatten() for ids in (env_ids, clip))
        frames = frame + torch.arange(horizon + 1, device=frame.device).unsqueeze(1)
        # In the step that leads to a state the policy was shown the frame before.
        shown, followed = (
            task.command.reference(clips, which.flatten()) for which in (frames, torch.cat((frames[:1], frames[:-1])))
        )

        def flat(values: Tensor) -> Tensor:
            return values.flatten(0, 1)

        def late(values: Tensor) -> Tensor:
            return flat(torch.cat((values[:1], values[:-1])))

        state = RobotState(*parts)
        view = task.view(state.map(flat), rows, flat(acted), late(acted), followed, before=state.map(late))
        events = flat(torch.cat((torch.zeros_like(logits[:1]), torch.sigmoid(logits))))
        reward, terminated = task.reward(view, events), task.imagination.terminated(view)
        observed = task.observe(task.follow(view, flat(acted), late(acted), shown), task.critic_groups)
        reward, terminated, clip_ended, observed = (
            values.unflatten(0, (horizon + 1, batch)) for values in (reward, terminated, followed.at_end, observed)
        )
        seen = torch.cat([observed, context.expand(horizon + 1, *context.shape)], dim=-1)
        return reward[1:], terminated[1:], clip_ended[1:], seen


class _LimitGradient(torch.autograd.Function):
    """The identity, which on the way back scales each row's gradient, of all parts together, to a norm of at most
    ``limit``; a row that is not finite becomes zero."""

    @staticmethod
    def forward(ctx: Any, limit: float, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.limit = limit
        return tuple(part.view_as(part) for part in parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        whole = torch.cat(grads, dim=-1)
        norm = whole.square().sum(dim=-1, keepdim=True).sqrt()
        limited = torch.where(norm.isfinite(), whole * (ctx.limit / (norm + 1e-12)).clamp(max=1.0), 0.0)
        return None, *limited.split([grad.shape[-1] for grad in grads], dim=-1)
