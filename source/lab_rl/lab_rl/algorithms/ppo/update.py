"""The update of PPO without the host: on a GPU, one CUDA graph per mini-batch."""

from __future__ import annotations

from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from torch import Tensor

from lab_core.agents import PPOCfg
from lab_rl.cuda_graph import CapturedCall, tensor_cores

LOSSES = ("value", "surrogate", "entropy")
"""What :meth:`PPOUpdate.__call__` returns means of."""
_LOWEST_RATE, _HIGHEST_RATE, _FACTOR = 1e-5, 1e-2, 1.5


class PPOUpdate:
    """Does what rsl-rl's ``PPO.update`` does, with losses and learning rate kept on the device.

    On a CPU it computes the same, bit for bit. Nothing is read on the host of a GPU, whose work is captured once and
    replayed for every mini-batch. For perceptrons: recurrent networks, symmetry and random network distillation are not
    among what it does.

    Args:
        alg: Networks, optimiser and storage, which stay rsl-rl's.
        cfg: The settings.
        captured: False: without graphs, to compare.
    """

    def __init__(self, alg: PPO, cfg: PPOCfg, captured: bool = True) -> None:
        self._alg, self._cfg = alg, cfg
        storage = alg.storage
        self._device = device = storage.rewards.device
        self._on_gpu = device.type == "cuda"
        self._size = storage.num_envs * storage.num_transitions_per_env // cfg.num_mini_batches
        self._rows = torch.zeros(self._size, dtype=torch.int64, device=device)
        self._advantages = torch.zeros_like(storage.returns)
        self._rate = torch.zeros((), dtype=torch.float64, device=device)
        """The learning rate, as the host would compute it."""
        self._rate_of_adam = torch.zeros((), device=device)
        self._totals = torch.zeros(len(LOSSES), dtype=torch.float64, device=device)
        self._std = torch.zeros((), device=device)
        self._captured = captured
        self.place()

    @property
    def rate(self) -> Tensor:
        """The learning rate () float64, on the device."""
        return self._rate

    @property
    def std(self) -> Tensor:
        """The mean standard deviation () of the actions in the last mini-batch."""
        return self._std

    def describe(self) -> str:
        """Returns in words how an update on a GPU runs."""
        if self._train.failure:
            return f"The update runs without a graph, since its capture failed: {self._train.failure}."
        return "The update is one graph per mini-batch."

    def place(self) -> None:
        """Takes over the learning rate and the state of the optimiser, after these were set from outside."""
        self._train = CapturedCall(self._train_on_batch, self._device, self._captured)
        self._rate.fill_(float(self._alg.learning_rate))
        for group in self._alg.optimizer.param_groups:
            group["fused"] = True  # one kernel per step; on a CPU it takes an eighth off the update
            group["capturable"] = self._on_gpu
        self._set_rate()
        for state in self._alg.optimizer.state.values():
            state["step"] = state["step"].to(self._device)

    def __call__(self) -> Tensor:
        """Learns from what the storage holds, empties it, and returns the means of :data:`LOSSES` (3,) float64."""
        cfg, alg = self._cfg, self._alg
        self._totals.zero_()
        self._advantages.copy_(alg.storage.advantages)
        order = torch.randperm(cfg.num_mini_batches * self._size, device=self._device)
        for _ in range(cfg.num_learning_epochs):
            for rows in order.split(self._size):
                self._rows.copy_(rows)
                self._train()
        for network in (alg.actor, alg.critic):
            _update_normalizer(network, self._observations())
        alg.storage.clear()
        return self._totals / (cfg.num_learning_epochs * cfg.num_mini_batches)

    def _train_on_batch(self) -> Tensor:
        with tensor_cores(self._cfg.precision == "tf32"):
            return self._step()

    def _observations(self) -> dict[str, Tensor]:
        """(T N, D) of each group. Plain tensors: what holds them for rsl-rl looks at them where a graph must not."""
        stored: Any = self._alg.storage.observations
        return {group: stored.get(group).flatten(0, 1) for group in stored.keys()}

    def _step(self) -> Tensor:
        alg, cfg, storage, rows = self._alg, self._cfg, self._alg.storage, self._rows
        actor: Any = alg.actor
        critic: Any = alg.critic
        observations = {group: seen.index_select(0, rows) for group, seen in self._observations().items()}
        actions, old_values, returns, old_log_prob, advantages = (
            values.flatten(0, 1).index_select(0, rows)
            for values in (
                storage.actions, storage.values, storage.returns, storage.actions_log_prob, self._advantages,
            )
        )  # fmt: skip
        # It draws actions that nobody reads, as rsl-rl does: so do all random numbers that follow stay the same.
        actor(observations, stochastic_output=True)
        log_prob = actor.get_output_log_prob(actions)
        values = critic(observations)
        entropy = actor.output_entropy.mean()
        if cfg.schedule == "adaptive":
            assert storage.distribution_params is not None
            before = tuple(part.flatten(0, 1).index_select(0, rows) for part in storage.distribution_params)
            self._adapt_rate(before)
        ratio = torch.exp(log_prob - old_log_prob.squeeze())
        gain = -advantages.squeeze()
        low, high = 1.0 - cfg.clip_param, 1.0 + cfg.clip_param
        surrogate = torch.max(gain * ratio, gain * ratio.clamp(low, high)).mean()
        value_loss = self._value_loss(values, old_values, returns)
        loss = surrogate + cfg.value_loss_coef * value_loss - cfg.entropy_coef * entropy
        alg.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for network in (alg.actor, alg.critic):
            torch.nn.utils.clip_grad_norm_(network.parameters(), cfg.max_grad_norm)
        alg.optimizer.step()
        self._totals += torch.stack([value_loss.detach(), surrogate.detach(), entropy.detach()])
        self._std.copy_(actor.output_std.detach().mean())
        # What is left of this graph of gradients must not lead the next one to the stream of this call.
        actor.distribution.forget()
        return self._totals

    def _value_loss(self, values: Tensor, old_values: Tensor, returns: Tensor) -> Tensor:
        if not self._cfg.use_clipped_value_loss:
            return (returns - values).pow(2).mean()
        clip = self._cfg.clip_param
        near = old_values + (values - old_values).clamp(-clip, clip)
        return torch.max((values - returns).pow(2), (near - returns).pow(2)).mean()

    @torch.no_grad()
    def _adapt_rate(self, before: tuple[Tensor, ...]) -> None:
        """Divides the learning rate by 1.5 where the policy moved too far, and multiplies it where it hardly did."""
        actor, desired = self._alg.actor, self._cfg.desired_kl
        moved = actor.get_kl_divergence(before, actor.output_distribution_params).mean()
        slower = (self._rate / _FACTOR).clamp(min=_LOWEST_RATE)
        faster = (self._rate * _FACTOR).clamp(max=_HIGHEST_RATE)
        near = torch.where((moved < desired / 2.0) & (moved > 0.0), faster, self._rate)
        self._rate.copy_(torch.where(moved > desired * 2.0, slower, near))
        self._set_rate()

    def _set_rate(self) -> None:
        rate: Any = self._rate_of_adam.copy_(self._rate) if self._on_gpu else float(self._rate)
        for group in self._alg.optimizer.param_groups:
            group["lr"] = rate


def _update_normalizer(network: MLPModel, observations: Any) -> None:
    """Lets a network's statistics take in observations, in the memory that graphs know, without waiting for the device:
    the update of mean and variance by a batch of Chan, Golub and LeVeque (1983)."""
    if not network.obs_normalization:
        return
    known: Any = network.obs_normalizer
    batch = torch.cat([observations[group] for group in network.obs_groups], dim=-1)
    variance, mean = batch.var(dim=0, unbiased=False, keepdim=True), batch.mean(dim=0, keepdim=True)
    known.count += len(batch)
    share = len(batch) / known.count
    moved = mean - known._mean
    known._mean += share * moved
    known._var += share * (variance - known._var + moved * (mean - known._mean))
    known._std.copy_(known._var.sqrt())
