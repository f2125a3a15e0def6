"""The training loop of PPO."""

from __future__ import annotations

import contextlib
import copy
import io
import math
from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.algorithms import PPO

from lab_core.agents import PPOCfg
from lab_core.envs import RLEnv
from lab_core.errors import ConfigError, LabError
from lab_core.seeding import rng_state, set_rng_state
from lab_rl.algorithms.base import Iteration, Runner
from lab_rl.algorithms.clock import IterationClock
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.finite import NonFiniteError, describe, rollout_tensors
from lab_rl.algorithms.ppo.plain import plain_because
from lab_rl.algorithms.ppo.policy import PPOPolicy, build_actor
from lab_rl.algorithms.ppo.rollout import CapturedRollout, RslRlRollout
from lab_rl.algorithms.ppo.settings import groups_read, rsl_rl_cfg, rsl_rl_processes
from lab_rl.algorithms.ppo.unsaved import restore_unsaved_state, unsaved_state
from lab_rl.algorithms.ppo.update import LOSSES, PPOUpdate
from lab_rl.algorithms.statistics import EpisodeStatistics
from lab_rl.processes import present_processes


class PPORunner(Runner):
    """Collects experience and lets rsl-rl's PPO learn from it.

    A step that ends in a time-out is bootstrapped with the critic's value of the observation that the episode ended
    with: reward + gamma V(final_obs). A termination is not, and neither is any end in a task of finite horizon.

    The rollout never waits for the device. Each iteration reads one packed tensor before the update (episode
    statistics, logs and a flag per kind of value that may be non-finite) and one after it.

    Several processes average gradients, divergence and statistics of observations, as rsl-rl does, and so have the same
    networks; each has a report of its own.

    Args:
        env: The environment; the runner resets it.
        cfg: The settings.

    Raises:
        LabError: The settings do not fit the environment.
    """

    own_state = ("environment", "episodes", "random", "env_steps", "unsaved")

    def __init__(self, env: RLEnv, cfg: PPOCfg) -> None:
        self._processes = present_processes()
        settings = rsl_rl_cfg(cfg, env.step_dt) | {"multi_gpu": rsl_rl_processes(self._processes)}
        self.cfg = cfg
        self.env = env
        groups = [name for groups in groups_read(cfg).values() for name in groups]
        self.adapter = RslRlEnv(env, groups, cfg.clip_actions)
        """The environment as rsl-rl sees it."""
        self.groups = self.adapter.groups
        self.device = env.device
        self.bootstraps = not env.cfg.is_finite_horizon
        if self.bootstraps and not env.cfg.compute_final_obs:
            raise ConfigError(
                "PPO needs the last observation of truncated episodes: set env.compute_final_obs to True, or "
                "env.is_finite_horizon to True if running out of time is part of the task."
            )
        batch = env.num_envs * cfg.num_steps_per_env
        if batch < cfg.num_mini_batches:
            raise ConfigError(f"{batch} steps per iteration cannot be split into {cfg.num_mini_batches} mini-batches.")
        if cfg.recurrent is not None and env.num_envs < cfg.num_mini_batches:
            raise ConfigError(
                f"Recurrent networks learn from whole rollouts: {env.num_envs} environments cannot be split into "
                f"{cfg.num_mini_batches} mini-batches."
            )
        with contextlib.redirect_stdout(io.StringIO()):  # it prints the networks
            self.alg = PPO.construct_algorithm(self.adapter.get_observations(), self.adapter, settings, str(env.device))
        self.alg.train_mode()
        if self.alg.is_multi_gpu:
            self.alg.broadcast_parameters()
        for group in self.alg.optimizer.param_groups:
            group["fused"] = True  # one kernel per step; on a CPU it takes an eighth off the update
        self._plain = plain_because(cfg, self._processes)
        make_rollout = RslRlRollout if self._plain else CapturedRollout
        self._rollout = make_rollout(self.adapter, self.alg, cfg, self.bootstraps)
        self._update = None if self._plain else PPOUpdate(self.alg, cfg)
        self.iteration = 0
        self.env_steps = 0
        self.episodes = EpisodeStatistics(env.num_envs, self.device)

    def policy(self) -> PPOPolicy:
        with torch.random.fork_rng():  # what a fresh network draws must not change the run
            network = build_actor(self.adapter, self.cfg, self.alg.get_policy().state_dict())
        return PPOPolicy(self.adapter, network, self.cfg.obs_groups["actor"])

    def describe(self) -> str:
        if self._update is None or not isinstance(self._rollout, CapturedRollout):
            return f"Acts and learns in rsl-rl's own code, without graphs: {self._plain}."
        if self.device.type != "cuda":
            return "Acts and learns without graphs: they are for GPUs."
        return f"{self._rollout.describe()} {self._update.describe()}"

    def iterate(self) -> Iteration:
        """Runs one iteration.

        Raises:
            NonFiniteError: A value is NaN or infinite. Bad observations, rewards, actions and values are found before
                the update, so that the networks are still those of the iteration before.
        """
        clock = IterationClock(self.device)
        with torch.inference_mode(), self._processes.failing_together():
            self._collect()
            dones = self.alg.storage.dones.squeeze(-1).bool()
            self.episodes.update(self._rollout.rewards, dones)
            with clock.waiting():
                report = self._read_rollout()
        clock.end("collection")
        updated = self._learn()
        with clock.waiting():
            losses, action_std = self._check_update(*updated)
            health = self.env.health()
        clock.end("learning")

        self.iteration += 1
        steps = self._rollout.rewards.numel()
        self.env_steps += steps
        rate = steps / clock.seconds
        reward, length = (None if math.isnan(report[name]) else report[name] for name in ("Train/mean_reward", _LENGTH))
        scalars = {name: value for name, value in report.items() if not math.isnan(value)}
        scalars |= {f"Loss/{name}": value for name, value in losses.items()}
        scalars |= {
            "Loss/learning_rate": self.alg.learning_rate,
            "Policy/mean_std": action_std,
            "Perf/total_fps": rate,
            **clock.scalars(),
            "Physics/non_finite_envs": float(health.non_finite_envs),
        }
        return Iteration(self.iteration, self.env_steps, rate, reward, length, scalars, health)

    def _collect(self) -> None:
        try:
            self._rollout.collect()
        except LabError:
            # An environment may refuse an action that is not finite: tell where that came from.
            self._raise_for_non_finite(self._rollout.latest())
            raise

    def _read_rollout(self) -> dict[str, float]:
        """Logs by name, from one copy to the host; raises when something collected is not finite."""
        tensors = rollout_tensors(self.alg, self._rollout.rewards, self.adapter.get_observations())
        reward, length = self.episodes.means()
        logs = self._rollout.logs.means()
        names = ["Train/mean_reward", _LENGTH, "Train/episodes", *(_log_name(name) for name in logs)]
        values = [reward, length, self.episodes.count, *logs.values()]
        finite = [value.isfinite().all() for _, value in tensors]
        packed = torch.stack([value.double() for value in (*finite, *values)]).tolist()
        if not all(packed[: len(finite)]):
            self._raise_for_non_finite(tensors)
        return dict(zip(names, packed[len(finite) :], strict=True))

    def _raise_for_non_finite(self, tensors: list[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in tensors:
            if not bool(tensor.isfinite().all()):
                raise NonFiniteError(f"Iteration {self.iteration + 1}: {describe(name, tensor, self.env)}.")

    def _learn(self) -> tuple[dict[str, float], list[torch.Tensor]]:
        """Updates the networks, and returns losses by name, and on the device: the mean standard deviation of the
        actions, and where losses are still there, these and the learning rate."""
        if self._update is None:
            return self.alg.update(), [self.alg.get_policy().output_std.mean()]
        means = self._update()
        return dict.fromkeys(LOSSES, 0.0), [self._update.std, *means, self._update.rate]

    def _check_update(self, losses: dict[str, float], on_device: list[torch.Tensor]) -> tuple[dict[str, float], float]:
        """Checks losses and parameters with one copy to the host, which brings along what :meth:`_learn` returned.

        Returns losses by name and the mean standard deviation of the actions.

        Raises:
            NonFiniteError: the update went wrong.
        """
        with torch.inference_mode():
            networks = (self.alg.get_policy(), self.alg.critic)
            norms = [torch.nn.utils.get_total_norm(list(network.parameters())) for network in networks]
            figures = torch.stack([figure.double() for figure in (*norms, *on_device)])
            actor, critic, std, *rest = figures.tolist()
        if rest:
            *means, self.alg.learning_rate = rest
            losses = dict(zip(losses, means, strict=True))
        bad = [f"{name} loss is {value}" for name, value in losses.items() if not math.isfinite(value)]
        bad += [f"the {name} has non-finite parameters" for name, norm in (("policy", actor), ("critic", critic))
                if not math.isfinite(norm)]  # fmt: skip
        if bad:
            raise NonFiniteError(f"Iteration {self.iteration + 1}: the update went wrong: {'; '.join(bad)}.")
        return losses, std

    def state_dict(self) -> dict[str, Any]:
        """All that decides the future of the run: networks, optimiser, environment, random generators, counters."""
        algorithm = copy.deepcopy(self.alg.save())
        for group in algorithm["optimizer_state_dict"]["param_groups"]:  # a file is of no device
            group |= {"lr": self.alg.learning_rate, "capturable": False}
        unsaved = unsaved_state(self.alg)
        return {
            "algorithm": algorithm,
            **({"unsaved": unsaved} if unsaved else {}),
            "environment": self.env.state_dict(),
            "episodes": self.episodes.state_dict(),
            "random": rng_state(),
            "configured_learning_rate": self.cfg.learning_rate,
            "iteration": self.iteration,
            "env_steps": self.env_steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where :meth:`state_dict` was taken, on a CPU bit for bit; at the configured learning rate where
        another one was configured then. Without :attr:`own_state`, that begins anew.

        Raises:
            LabError: The state is of networks or of an environment of other sizes.
        """
        try:
            self.alg.load(copy.deepcopy(dict(state["algorithm"])), None, True)  # the optimiser keeps what it is given
        except RuntimeError as error:
            raise LabError(f"The stored networks do not fit the settings: {error}") from error
        if state.get("configured_learning_rate", self.cfg.learning_rate) != self.cfg.learning_rate:
            self.alg.learning_rate = self.cfg.learning_rate
            for group in self.alg.optimizer.param_groups:
                group["lr"] = self.cfg.learning_rate
        if self._update is not None:
            self._update.place()
        self.iteration = state["iteration"]
        if "environment" not in state:
            self.env_steps = self.iteration * self._rollout.rewards.numel()
            return
        with torch.inference_mode():
            self.env.load_state_dict(state["environment"])
            self.episodes.load_state_dict(state["episodes"])
            restore_unsaved_state(self.alg, state.get("unsaved", {}))
        self.env_steps = state["env_steps"]
        set_rng_state(state["random"])


_LENGTH = "Train/mean_episode_length"


def _log_name(name: str) -> str:
    return name if "/" in name else f"Episode/{name}"
