"""What PPO collects in a rollout, and the returns that follow from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from torch import Tensor

from lab_core.agents import PPOCfg
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.finite import observation_tensors
from lab_rl.algorithms.statistics import StepLogs
from lab_rl.cuda_graph import CapturedCall, tensor_cores


class Rollout(ABC):
    """Acts for T steps, keeps what they lead to in the storage of ``alg``, and computes returns and advantages.

    A step that ends in a time-out is worth gamma V(final_obs) more.

    Args:
        adapter: The environment.
        alg: Networks and storage.
        cfg: The settings.
        bootstraps: Whether time-outs count as cut off.
    """

    def __init__(self, adapter: RslRlEnv, alg: PPO, cfg: PPOCfg, bootstraps: bool) -> None:
        self._adapter, self._alg, self._cfg, self._bootstraps = adapter, alg, cfg, bootstraps
        self.rewards = torch.zeros_like(alg.storage.rewards[..., 0])
        """(T, N) of the latest rollout, as the environment gave them."""
        self.logs = StepLogs()

    @abstractmethod
    def collect(self) -> None:
        """Makes a rollout.

        Raises:
            LabError: the environment refuses an action.
        """

    @abstractmethod
    def latest(self) -> list[tuple[str, Tensor]]:
        """Returns what the latest step acted on and its action, by name, (1, N, ...) each: for the error of a step."""


class RslRlRollout(Rollout):
    """A rollout in rsl-rl's own code."""

    def collect(self) -> None:
        alg, observations = self._alg, self._adapter.get_observations()
        for step in range(self._cfg.num_steps_per_env):
            observations, rewards, dones, extras = self._adapter.step(alg.act(observations))
            self.rewards[step].copy_(rewards)
            if self._bootstraps:
                rewards = rewards + self._value_of_time_outs(extras)
            # Without "time_outs", so that rsl-rl does not add the value of the observation before the step.
            alg.process_env_step(observations, rewards, dones, {})
            self.logs.add(extras["log"], extras["reset_count"])
        alg.compute_returns(observations)

    def latest(self) -> list[tuple[str, Tensor]]:
        step: Any = self._alg.transition
        return [*observation_tensors(step.observations.unsqueeze(0)), (_ACTION, step.actions.unsqueeze(0))]

    def _value_of_time_outs(self, extras: Mapping[str, Any]) -> Tensor:
        critic = self._alg.critic
        memory = critic.get_hidden_state()
        values = critic(extras["final_obs"]).squeeze(-1)
        critic.reset(hidden_state=memory)
        # where(): the value of an environment that goes on must not matter, not even when it is NaN
        return torch.where(extras["time_outs"], self._cfg.gamma * values, 0.0)


class CapturedRollout(Rollout):
    """Does the same without Python where it can: on a GPU, what acts and what keeps is part of the graph of a step, if
    the front end captures one; else what acts is a graph of its own. All values and returns are a graph behind the
    rollout. On a CPU the numbers are those of rsl-rl, bit for bit.
    """

    def __init__(self, adapter: RslRlEnv, alg: PPO, cfg: PPOCfg, bootstraps: bool) -> None:
        super().__init__(adapter, alg, cfg, bootstraps)
        self._env, storage = adapter.env, alg.storage
        self._actor: Any = alg.actor
        self._on_gpu = (device := self._env.device).type == "cuda"
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        """The step of the rollout."""
        self._noise = torch.zeros_like(storage.actions)
        groups = alg.critic.obs_groups if bootstraps else ()
        self._final = {name: torch.zeros_like(storage.observations.get(name)) for name in groups}
        self._time_outs = torch.zeros_like(self.rewards, dtype=torch.bool)
        self._log = self._env.log.buffer
        if self._log is not None:
            self._logged = self._log.new_zeros(cfg.num_steps_per_env, *self._log.shape)
            self._resets = torch.zeros(cfg.num_steps_per_env, dtype=torch.int64, device=device)
        with torch.no_grad():
            parts = self._distribution()
        steps = (cfg.num_steps_per_env,)
        storage.distribution_params = tuple(part.new_zeros(steps + part.shape) for part in parts)
        self._actor.distribution.forget()
        self._act = CapturedCall(self._draw_actions, device)
        self._keep: Callable[[], None] = self._keep_step  # one object: what captures knows it again
        self._evaluate = CapturedCall(self._compute_returns, device)

    def collect(self) -> None:
        self._row.zero_()
        for noise in self._noise:  # as rsl-rl draws it, and outside of what is captured
            noise.normal_()
        for _ in range(self._cfg.num_steps_per_env):
            self._env.step_live(self._act, self._keep)
            if self._log is None:
                self.logs.add(self._env.log.values(), self._env.reset_buf.sum())
        if self._log is not None:
            names = self._env.log.names
            self.logs.add_rows(names, self._logged[:, : len(names)], self._resets)
        self._evaluate()

    def latest(self) -> list[tuple[str, Tensor]]:
        storage, row = self._alg.storage, int(self._row)
        return [*observation_tensors(storage.observations[row : row + 1]), (_ACTION, storage.actions[row : row + 1])]

    def describe(self) -> str:
        """Returns in words how a step of a rollout on a GPU runs, as known from the latest one."""
        if can := self._env.live_capture:
            return "The policy acts, and what it learns from is kept, in the graph of a step."
        return f"The policy acts beside the step: {can.reason}."

    def _distribution(self) -> tuple[Tensor, ...]:
        """Parameters of the actions' distribution for the observations of now."""
        actor = self._actor
        actor.distribution.update(actor.mlp(actor.get_latent(self._env.obs_buf)))
        return actor.output_distribution_params

    def _write(self, buffer: Tensor, values: Tensor) -> None:
        """Writes ``values`` into the row of the step of ``buffer`` (T, ...)."""
        buffer.index_copy_(0, self._row, values.to(buffer.dtype).reshape(1, *buffer.shape[1:]))

    def _draw_actions(self) -> Tensor:
        actor, storage = self._actor, self._alg.storage
        assert storage.distribution_params is not None
        for group in self._adapter.groups:
            self._write(storage.observations.get(group), self._env.obs_buf[group])
        with tensor_cores(self._cfg.precision == "tf32"):
            drawn_from = self._distribution()
        actions = actor.distribution.sample_with(self._noise.index_select(0, self._row).squeeze(0))
        self._write(storage.actions, actions)
        self._write(storage.actions_log_prob, actor.get_output_log_prob(actions))
        for stored, part in zip(storage.distribution_params, drawn_from, strict=True):
            self._write(stored, part)
        limit = self._cfg.clip_actions
        return actions if limit is None else actions.clamp(-limit, limit)

    def _keep_step(self) -> None:
        env = self._env
        self._write(self.rewards, env.reward_buf)
        self._write(self._alg.storage.dones, env.reset_buf)
        if self._bootstraps:
            for group, values in self._final.items():
                self._write(values, env.final_obs_buf[group])
            self._write(self._time_outs, env.reset_time_outs & ~env.reset_terminated)
        if self._log is not None:
            self._write(self._logged, self._log)
            self._write(self._resets, env.reset_buf.sum())
        self._row.add_(1)

    def _compute_returns(self) -> Tensor:
        """Generalised advantage estimation (Schulman et al. 2016)."""
        storage, cfg = self._alg.storage, self._cfg
        with tensor_cores(cfg.precision == "tf32"):
            storage.values.copy_(self._values(storage.observations))
            rewards = self.rewards.unsqueeze(-1)
            if self._bootstraps:
                beyond = cfg.gamma * self._values(self._final)
                rewards = rewards + torch.where(self._time_outs.unsqueeze(-1), beyond, 0.0)
            storage.rewards.copy_(rewards)
            next_values = self._alg.critic(self._env.obs_buf)
        advantage = torch.zeros_like(storage.values[0])
        for step in reversed(range(cfg.num_steps_per_env)):
            goes_on = 1.0 - storage.dones[step].float()
            surprise = storage.rewards[step] + goes_on * cfg.gamma * next_values - storage.values[step]
            advantage = surprise + goes_on * cfg.gamma * cfg.lam * advantage
            storage.returns[step].copy_(advantage + storage.values[step])
            next_values = storage.values[step]
        advantages = storage.returns - storage.values
        storage.advantages.copy_((advantages - advantages.mean()) / (advantages.std() + 1e-8))
        return storage.advantages

    def _values(self, observations: Any) -> Tensor:
        """The critic's values (T, N, 1) of ``observations`` (T, N, ...): on a GPU all at once; on a CPU as rsl-rl
        computes them, since the width of a product decides its rounding."""
        critic = self._alg.critic
        if self._on_gpu:
            return critic({group: observations[group] for group in critic.obs_groups})
        steps = range(self._cfg.num_steps_per_env)
        return torch.stack(
            [critic({group: observations[group][step] for group in critic.obs_groups}) for step in steps]
        )


_ACTION = "the policy's action"
