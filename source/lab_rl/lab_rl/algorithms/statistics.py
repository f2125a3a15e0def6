"""What an iteration tells about episodes, computed on the device once per iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from lab_core.state import Stateful

WINDOW = 100
"""Episodes in the running means of return and length."""


class EpisodeStatistics(Stateful):
    """Returns and lengths of the last :data:`WINDOW` finished episodes, without asking the host.

    Lengths count the steps that were taken, so an episode whose clock started late is as short as it was.
    """

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self.open_return = torch.zeros(num_envs, device=device)
        """(N,) sum of rewards of the running episodes."""
        self.open_length = torch.zeros(num_envs, dtype=torch.int64, device=device)
        """(N,) steps of the running episodes."""
        self.returns = torch.zeros(WINDOW, device=device)
        self.lengths = torch.zeros(WINDOW, dtype=torch.int64, device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        """0-d, episodes finished so far."""

    def update(self, rewards: torch.Tensor, dones: torch.Tensor) -> None:
        """Takes in the steps of one iteration: rewards (T, N), dones (T, N) bool."""
        steps = torch.arange(len(rewards), device=rewards.device).unsqueeze(-1)
        # The last step before each one in which its environment ended an episode; -1 for none in this iteration.
        last_done = torch.where(dones, steps, -1).cummax(dim=0).values
        before = torch.cat([torch.full_like(last_done[:1], -1), last_done[:-1]])
        # A product with a triangle: the sum over time, which as cumsum() does not repeat bit for bit on a GPU.
        total = rewards.new_ones(len(rewards), len(rewards)).tril() @ rewards
        returns = _since(total, before, self.open_return)
        lengths = steps - before + torch.where(before < 0, self.open_length, 0)
        self._remember(returns, lengths, dones)
        ended = last_done[-1]
        self.open_return.copy_(total[-1] - _at(total, ended) + torch.where(ended < 0, self.open_return, 0.0))
        self.open_length.copy_(len(rewards) - 1 - ended + torch.where(ended < 0, self.open_length, 0))

    def means(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean return and length (0-d) over the window; NaN before the first episode ended."""
        filled = self.count.clamp(max=WINDOW)
        return self.returns.sum() / filled, self.lengths.sum() / filled

    def _remember(self, returns: torch.Tensor, lengths: torch.Tensor, dones: torch.Tensor) -> None:
        done = dones.flatten()
        order = done.cumsum(0)
        number = order[-1]
        recent = done & (order > number - WINDOW)
        # Everything that is not among the last WINDOW episodes goes to a place behind the ring.
        place = torch.where(recent, (self.count + order - 1) % WINDOW, WINDOW)
        for ring, values in ((self.returns, returns), (self.lengths, lengths)):
            spare = torch.cat([ring, ring[:1]])
            ring.copy_(spare.scatter_(0, place, values.flatten())[:WINDOW])
        self.count += number


def _at(total: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """``total[index]`` along time, 0 where the index is -1."""
    shape = index.shape
    index = index.reshape(-1, total.shape[1])
    return torch.where(index < 0, 0.0, total.gather(0, index.clamp(min=0))).reshape(shape)


def _since(total: torch.Tensor, before: torch.Tensor, carried: torch.Tensor) -> torch.Tensor:
    return total - _at(total, before) + torch.where(before < 0, carried, 0.0)


class StepLogs:
    """The logs of an iteration's steps; each counts as many times as environments were reset in its step."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, ...], list[tuple[Mapping[str, torch.Tensor], torch.Tensor]]] = {}
        self._rows: list[tuple[Sequence[str], torch.Tensor, torch.Tensor]] = []

    def add(self, log: Mapping[str, torch.Tensor], reset_count: torch.Tensor) -> None:
        """Keeps the ``log`` of a step (0-d each, owned by the receiver); ``reset_count`` (0-d): environments reset."""
        if log:
            self._steps.setdefault(tuple(log), []).append((log, reset_count))

    def add_rows(self, names: Sequence[str], values: torch.Tensor, reset_counts: torch.Tensor) -> None:
        """Keeps the logs of T steps: ``values`` (T, K) of K ``names``, and ``reset_counts`` (T,)."""
        self._rows.append((names, values, reset_counts))

    def means(self) -> dict[str, torch.Tensor]:
        """Weighted means (0-d) by name since the last call; NaN where no environment was reset."""
        for names, steps in self._steps.items():
            values = torch.stack([log[name] for log, _ in steps for name in names]).view(len(steps), -1)
            self.add_rows(names, values, torch.stack([count for _, count in steps]))
        sums: dict[str, torch.Tensor] = {}
        weights: dict[str, torch.Tensor] = {}
        for names, values, counts in self._rows:
            weight = counts.float()
            # where(): a step without a reset may log anything, also NaN
            weighted = torch.where(weight.unsqueeze(-1) > 0, values.float() * weight.unsqueeze(-1), 0.0).sum(0)
            for name, value in zip(names, weighted.unbind(), strict=True):
                sums[name] = sums.get(name, 0.0) + value
                weights[name] = weights.get(name, 0.0) + weight.sum()
        self._steps, self._rows = {}, []
        return {name: value / weights[name] for name, value in sums.items()}
