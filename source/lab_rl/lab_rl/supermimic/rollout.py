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


def imagine(
    task: TrackingTask,
    model: WorldModel,
    act: Act,
    inputs: RolloutInputs,
    context: Tensor,
    limit: float | None = None,
) -> Rollout:
    """Lets the policy act in the world model.

    Rewards, terminations and the critic's observations are computed for all steps at once behind the rollout, since
    nothing in the rollout reads them.

    Args:
        act: Observations (B, D) -> actions (B, A).
        inputs: Where rollouts begin.
        context: (N, C) of all environments.
        limit: Largest norm of the gradient that is handed from a state to the one before; None: any.
    """
    own_context = context.index_select(0, inputs.env_ids).to(inputs.prev_action.dtype)
    states, actions = [inputs.state], [inputs.prev_action]
    for step in range(inputs.horizon):
        state, shown = states[-1], task.command.reference(inputs.clip, inputs.frame + step)
        if limit is not None:
            state = RobotState(*_LimitGradient.apply(limit, *state.tensors()))
        # The action before the one before is known from the second step on, and hardly any term observes it.
        view = task.view(state, inputs.env_ids, actions[-1], actions[max(len(actions) - 2, 0)], shown)
        observation = task.observe(view, task.actor_groups) + inputs.observation_noise[step]
        action = act(observation) + inputs.action_noise[step]
        states.append(model(state, task.targets(view, action), own_context))
        actions.append(action)
    return _evaluate(task, inputs, states, actions, own_context)


def _evaluate(
    task: TrackingTask,
    inputs: RolloutInputs,
    states: list[RobotState],
    actions: list[Tensor],
    context: Tensor,
) -> Rollout:
    horizon, batch = inputs.horizon, inputs.batch_size
    path, acted = RobotState.stack(states), torch.stack(actions)  # (H + 1, ...), the first action is that before
    rows, clips = (ids.expand(horizon + 1, batch).flatten() for ids in (inputs.env_ids, inputs.clip))
    frames = (inputs.frame + torch.arange(horizon + 1, device=rows.device).unsqueeze(1)).flatten()
    shown = task.command.reference(clips[:-batch], frames[:-batch])

    def flat(start: int, stop: int) -> RobotState:
        return path.map(lambda part: part[start:stop].flatten(0, 1))

    view = task.view(
        flat(1, horizon + 1),
        rows[batch:],
        acted[1:].flatten(0, 1),
        acted[:-1].flatten(0, 1),
        shown,
        before=flat(0, horizon),
    )
    reward, terminated = task.imagination.reward(view), task.imagination.terminated(view)
    before = torch.cat([acted[:1], acted[:-1]])
    reference = task.command.reference(clips, frames)
    seen = task.view(flat(0, horizon + 1), rows, acted.flatten(0, 1), before.flatten(0, 1), reference)
    observed = task.observe(seen, task.critic_groups).unflatten(0, (horizon + 1, batch))
    return Rollout(
        reward=reward.unflatten(0, (horizon, batch)),
        terminated=terminated.unflatten(0, (horizon, batch)),
        clip_ended=shown.at_end.unflatten(0, (horizon, batch)),
        critic_inputs=torch.cat([observed, context.expand(horizon + 1, *context.shape)], dim=-1),
        actions=acted[1:],
    )


class _LimitGradient(torch.autograd.Function):
    """The identity, which on the way back scales each row's gradient, of all parts together, to a norm of at most
    ``limit``; a row that is not finite becomes zero."""

    @staticmethod
    def forward(ctx: Any, limit: float, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.limit = limit
        return tuple(part.view_as(part) for part in parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        norm = torch.stack([grad.square().sum(dim=-1, keepdim=True) for grad in grads]).sum(0).sqrt()
        scale = torch.where(norm.isfinite(), (ctx.limit / (norm + 1e-12)).clamp(max=1.0), 0.0)
        return None, *(torch.where(norm.isfinite(), grad * scale, 0.0) for grad in grads)
