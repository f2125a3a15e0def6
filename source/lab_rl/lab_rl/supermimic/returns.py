"""Returns of imagined rollouts that fail, reach the end of their clip, or go on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RolloutEnds:
    """Where B rollouts of H steps count.

    After a failure nothing counts, not even the value of the state. After the last frame of a clip, and after the last
    step, the value of the state stands for what comes later.
    """

    alive: Tensor
    """(H, B) 1 where the step counts, 0 behind an end."""
    goes_on: Tensor
    """(H, B) 1 where the step leads to a state that has a value, 0 after a failure."""
    last: Tensor
    """(H, B) bool, the value of the next state stands for all that follows."""

    @classmethod
    def find(cls, terminated: Tensor, clip_ended: Tensor, counts: Tensor) -> RolloutEnds:
        """Finds them out of flags (H, B) bool, and rollouts ``counts`` (B,) bool that count at all."""
        ends = (terminated | clip_ended).int().cumsum(dim=0)
        before = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])
        alive = (before == 0) & counts
        last = clip_ended.clone()
        last[-1] = True
        return cls(alive.float(), (~terminated).float(), last)

    def returns(self, reward: Tensor, next_value: Tensor, gamma: float) -> Tensor:
        """Returns discounted returns (B,) from rewards (H, B) and values (H, B) of the states that steps lead to."""
        steps = torch.arange(len(reward), device=reward.device).unsqueeze(1)
        beyond = torch.where(self.last, gamma * self.goes_on * next_value, 0.0)
        return (gamma**steps * self.alive * (reward + beyond)).sum(dim=0)

    def td_lambda(self, reward: Tensor, next_value: Tensor, gamma: float, lam: float) -> Tensor:
        """Returns targets (H, B) of the values of the states that steps begin in: TD(lambda) of Sutton (1988);
        0 for steps that do not count."""
        reward, next_value = reward.detach(), next_value.detach()
        # target[t] = own[t] + share[t] target[t + 1], in one operation a step
        beyond = gamma * self.goes_on
        own = reward + beyond * torch.where(self.last, next_value, (1.0 - lam) * next_value)
        own = torch.where(self.alive > 0.0, own, 0.0)
        share = torch.where(self.last, 0.0, lam * beyond)
        target, targets = own[-1], []
        for mine, part in zip(reversed(own.unbind()), reversed(share.unbind()), strict=True):
            target = torch.addcmul(mine, part, target)
            targets.append(target)
        return torch.stack(targets[::-1])
