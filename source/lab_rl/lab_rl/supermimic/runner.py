"""The training loop: collect, fit the world model, improve the policy."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from lab_core.agents import SuperMimicCfg
from lab_core.envs import RLEnv
from lab_core.errors import ConfigError, LabError
from lab_core.physics import differences
from lab_core.recorder import RecorderManager
from lab_core.seeding import make_generator, rng_state, set_rng_state
from lab_rl.algorithms import EpisodeStatistics, Iteration, Runner, StepLogs
from lab_rl.fused import can_fuse
from lab_rl.supermimic.exploration import Exploration
from lab_rl.supermimic.fit import WorldModelFit
from lab_rl.supermimic.improve import FIGURES, PolicyUpdate
from lab_rl.supermimic.networks import Actor, Critic
from lab_rl.supermimic.phases import PhaseClock, StartNotes
from lab_rl.supermimic.policy import SuperMimicPolicy
from lab_rl.supermimic.recording import replay_recorder_cfg
from lab_rl.supermimic.replay import Replay, WindowBatch
from lab_rl.supermimic.settings import check_supermimic_cfg
from lab_rl.supermimic.task import TrackingTask
from lab_rl.supermimic.world_model import WorldModel

_HELD_OUT_WINDOWS = 256


class SuperMimicRunner(Runner):
    """Learns to track the clips of a task.

    An iteration waits for the device twice: where the physics report their health, and where it reads one packed tensor
    of figures.

    Args:
        env: The environment; the runner resets it and records its steps.
        cfg: The settings.

    Raises:
        LabError: The settings do not fit the environment, or a term of the task cannot be imagined.
    """

    def __init__(self, env: RLEnv, cfg: SuperMimicCfg) -> None:
        check_supermimic_cfg(cfg)
        if env.is_recorded:
            raise ConfigError("SuperMimic records steps by itself, in the place of env.recorder: set that to None.")
        self.env, self.cfg = env, cfg
        self.device = device = env.device
        if device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = cfg.precision != "fp32"
        with torch.no_grad():
            env.reset()
            self.task = task = TrackingTask(env, cfg)
            self.generator = make_generator(env.seed, device, "supermimic")
            self._noise_std = task.noise_std(self.generator)
            self._context = task.context()
        self.groups = tuple(dict.fromkeys((*task.actor_groups, *task.critic_groups)))
        recording = replay_recorder_cfg(
            task.robot, task.command_name, task.events, cfg.replay_steps, cfg.replay_memory_gib
        )
        recorder = RecorderManager(recording, env)
        env.set_recorder(recorder)
        assert recorder.retention is not None
        self.replay = Replay(recorder.retention.ring, self._held_out(), self.generator)
        self._make_networks()
        shape = (env.num_envs, task.num_actions)
        self.exploration = Exploration(cfg.exploration, cfg.exploration_correlation, shape, self.generator)
        self.episodes = EpisodeStatistics(env.num_envs, device)
        self._logs = StepLogs()
        self.iteration = self.env_steps = 0
        self._warm = False
        self._notes = StartNotes(device)
        self._making = "compiling" if cfg.fused and can_fuse(device) else "making"
        self._held_out_batch = WindowBatch(self.replay, cfg.world_model.horizon, _HELD_OUT_WINDOWS)

    def _make_networks(self) -> None:
        cfg, task = self.cfg, self.task
        observed, shown = self._widths()
        context = self._context.shape[1]
        actor = Actor(observed, task.num_actions, cfg.actor_hidden_dims, cfg.action_limit).to(self.device)
        critic = Critic(shown + context, cfg.critic_hidden_dims).to(self.device)
        hidden, events = cfg.world_model.hidden_dims, len(task.events)
        model = WorldModel(task.motion, task.num_actions, context, events, hidden).to(self.device)
        total = cfg.warmup_updates + cfg.max_iterations * cfg.world_model_updates
        self.fit = WorldModelFit(model, task, self.replay, cfg, self._context, self.generator, total)
        self.policy_update = PolicyUpdate(
            actor, critic, model, task, self.replay, cfg, self._context, self._noise_std, self.generator
        )

    def policy(self) -> SuperMimicPolicy:
        """Returns a copy of the averaged policy."""
        actor = copy.deepcopy(self.policy_update.averaged).requires_grad_(False).eval()
        return SuperMimicPolicy(self.env, actor, self.task.actor_groups)

    def iterate(self) -> Iteration:
        """Runs one iteration; the first one collects and fits more.

        Raises:
            LabError: the physics failed, or too many updates in a row had gradients that are not finite.
        """
        cfg, start, clock = self.cfg, time.perf_counter(), PhaseClock(self.device)
        steps = 0
        if self.task.refresh():
            self.policy_update.forget()
        if not self._warm:
            self._notes.begin(f"collecting {cfg.warmup_steps} steps in {self.env.num_envs} environments")
            steps += self._collect(cfg.warmup_steps, cfg.warmup_noise)
            self._check_targets()
            clock.mark("collection")
            self._warm_up_model(max(cfg.warmup_updates - self.fit.update_count, 0))
            clock.mark("world_model")
            self._warm = True
        self._notes.begin(f"collecting {cfg.num_steps_per_env} steps")
        steps += self._collect(cfg.num_steps_per_env)
        clock.mark("collection")
        self._notes.begin(f"making the world model's update with {self.fit.horizon} steps")
        model_loss = self._update_model(cfg.world_model_updates)
        clock.mark("world_model")
        self._notes.begin(f"{self._making} the policy's and the critic's update")
        figures = torch.stack([self.policy_update.update(clock.mark) for _ in range(cfg.policy_updates)]).mean(0)
        self._notes.end()
        self.iteration += 1
        self.env_steps += steps * self.env.num_envs
        report = self._read(model_loss, figures)
        seconds = time.perf_counter() - start
        health = self.env.health()
        self._stop_if_stuck(report)
        rate = steps * self.env.num_envs / seconds
        names = ("Train/mean_reward", "Train/mean_episode_length")
        reward, length = (None if math.isnan(report[name]) else report[name] for name in names)
        scalars = {name: value for name, value in report.items() if not math.isnan(value)}
        scalars |= clock.scalars()
        scalars |= {
            "Perf/total_fps": rate,
            "Perf/iterations_per_s": 1.0 / seconds,
            "Physics/non_finite_envs": float(health.non_finite_envs),
        }
        return Iteration(self.iteration, self.env_steps, rate, reward, length, scalars, health)

    @torch.no_grad()
    def _collect(self, steps: int, noise: float | None = None) -> int:
        """Steps all environments and lets normalisers and replay take notice."""
        shape = (steps, self.env.num_envs)
        rewards = torch.zeros(shape, device=self.device)
        dones = torch.zeros(shape, dtype=torch.bool, device=self.device)
        observed, shown = self._widths()
        actor_inputs = torch.zeros(*shape, observed, device=self.device)
        critic_inputs = torch.zeros(*shape, shown, device=self.device)
        for step in range(steps):
            observations = self.env.get_observations()
            torch.cat([observations[group] for group in self.task.actor_groups], dim=-1, out=actor_inputs[step])
            torch.cat([observations[group] for group in self.task.critic_groups], dim=-1, out=critic_inputs[step])
            action = self.policy_update.actor(actor_inputs[step]) + self.exploration.draw(noise)
            _, reward, terminated, truncated, extras = self.env.step(action)
            rewards[step].copy_(reward)
            torch.logical_or(terminated, truncated, out=dones[step])
            self._logs.add(extras["log"], extras["reset_count"])
        self.episodes.update(rewards, dones)
        without_noise = self.exploration.deterministic
        total = torch.where(without_noise, rewards, 0.0).sum()
        self._deterministic_reward = total / (steps * without_noise.sum())  # NaN where nobody acts without noise
        self._context.copy_(self.task.context())
        self.replay.index(steps)
        self.fit.observe_newest()
        self.policy_update.actor.normalizer.update(actor_inputs)
        context = self._context.expand(steps, *self._context.shape)
        self.policy_update.critic.normalizer.update(torch.cat([critic_inputs, context], dim=-1))
        return steps

    @torch.no_grad()
    def _check_targets(self) -> None:
        """Compares targets that actions became in the newest steps with those that imagination makes of them."""
        values, _ = self.replay.newest()
        steps, num_envs = values["targets"].shape[:2]
        env_ids = torch.arange(num_envs, device=self.device)
        state = self.fit.states(values, "start", env_ids).map(lambda part: part.flatten(0, 1))
        action, before, clip, frame = (
            values[key].flatten(0, 1) for key in ("action/now", "action/before", "reference/clip", "reference/frame")
        )
        shown = self.task.command.reference(clip, frame)
        view = self.task.view(state, env_ids.repeat(steps), before, before, shown)
        error = (self.task.targets(view, action) - values["targets"].flatten(0, 1)).abs().max()
        if not float(error) < 1e-4:
            names = ", ".join(map(repr, self.task.env.action_manager.term_names))
            raise LabError(
                f"Actions ({names}) become targets that are up to {float(error):.3g} away from those of "
                "imagination: processed_for() of an action term does not say what it does."
            )

    def _warm_up_model(self, number: int) -> None:
        """Fits the model before the policy learns anything; its first update is made on the way."""
        self._notes.begin(f"{self._making} the world model's update")
        self._update_model(min(number, 1))
        self._notes.begin(f"fitting the world model, {number} updates")
        self._update_model(number - 1)

    def _update_model(self, number: int) -> Tensor:
        """Returns the mean loss () of so many updates, NaN for none."""
        losses = [self.fit.update() for _ in range(number)]
        return torch.stack(losses).mean() if losses else torch.full((), math.nan, device=self.device)

    def _read(self, model_loss: Tensor, figures: Tensor) -> dict[str, float]:
        """Figures by name, from one copy to the host."""
        reward, length = self.episodes.means()
        update = self.policy_update
        optimizers = {"policy": update.actor_optimizer, "critic": update.critic_optimizer, "model": self.fit.optimizer}
        values: dict[str, Tensor] = {
            "Train/mean_reward": reward,
            "Train/mean_episode_length": length,
            "Train/episodes": self.episodes.count,
            "Train/deterministic_step_reward": self._deterministic_reward,
            "WorldModel/loss": model_loss,
            **{f"Imagined/{name}": value for name, value in zip(FIGURES, figures, strict=True)},
            "Imagined/left_out": update.left_out,
            **{f"Gradient/{name}": optimizer.grad_norm for name, optimizer in optimizers.items()},
            **{f"Skipped/{name}": optimizer.skipped for name, optimizer in optimizers.items()},
            **{f"Skipped/{name}_in_a_row": optimizer.skipped_in_a_row for name, optimizer in optimizers.items()},
            **{f"Sampler/{name}": value for name, value in self.task.command.sampler.statistics().items()},
            **{name if "/" in name else f"Episode/{name}": value for name, value in self._logs.means().items()},
        }
        if self.iteration % self.cfg.holdout_interval == 0:
            errors = self.fit.measure(self._held_out_batch)
            values |= {f"WorldModel/held_out_{name}": value for name, value in errors.items()}
        packed = torch.stack([value.detach().double() for value in values.values()]).tolist()
        return dict(zip(values, packed, strict=True))

    def _stop_if_stuck(self, report: Mapping[str, float]) -> None:
        for name in ("policy", "critic", "model"):
            if (number := int(report[f"Skipped/{name}_in_a_row"])) >= self.cfg.max_skipped_updates:
                raise LabError(
                    f"Iteration {self.iteration}: the last {number} updates of the {name} had gradients that are not "
                    f"finite and were left out (agent.max_skipped_updates is {self.cfg.max_skipped_updates}). Its "
                    "parameters are those of before; a smaller learning rate or agent.max_state_gradient may help."
                )

    def _widths(self) -> tuple[int, int]:
        sizes = self.task.env.observation_manager.group_obs_dim
        actor, critic = (
            sum(sizes[group][0] for group in groups) for groups in (self.task.actor_groups, self.task.critic_groups)
        )
        return actor, critic

    def _held_out(self) -> Tensor:
        """(N,) bool: the last environments, at least one, not all."""
        number = max(1, round(self.cfg.world_model.holdout_share * self.env.num_envs))
        if self.env.num_envs < 2:
            raise ConfigError("SuperMimic needs at least 2 environments: one is held out from the world model.")
        number = min(number, self.env.num_envs - 1)
        return torch.arange(self.env.num_envs, device=self.device) >= self.env.num_envs - number

    def state_dict(self) -> dict[str, Any]:
        """All that decides the future of the run; the recorded steps where ``cfg.save_replay`` says so."""
        return {
            "model": copy.deepcopy(self.fit.state_dict()),
            "policy": copy.deepcopy(self.policy_update.state_dict()),
            "replay": self.replay.state_dict() if self.cfg.save_replay else None,
            "environment": self.env.state_dict(),
            "episodes": self.episodes.state_dict(),
            "exploration": self.exploration.state_dict(),
            "noise_std": self._noise_std.clone(),
            "generator": self.generator.get_state(),
            "random": rng_state(),
            "trained_on": self._trained_on(),
            "iteration": self.iteration,
            "env_steps": self.env_steps,
            "warm": self._warm,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where :meth:`state_dict` was taken, on a CPU bit for bit if the recorded steps are in it; else the
        next iteration collects them anew.

        Raises:
            LabError: The state is of networks, an environment, a robot or clips that differ.
        """
        if changed := differences(state["trained_on"], self._trained_on()):
            raise LabError(f"The state is of another robot or other clips: {'; '.join(changed)}.")
        stored = copy.deepcopy({name: state[name] for name in ("model", "policy")})  # optimisers keep what they get
        try:
            self.fit.load_state_dict(stored["model"])
            self.policy_update.load_state_dict(stored["policy"])
        except RuntimeError as error:
            raise LabError(f"The stored networks do not fit the settings: {error}") from error
        with torch.no_grad():
            self.env.load_state_dict(state["environment"])
            self.episodes.load_state_dict(state["episodes"])
            self.exploration.load_state_dict(state["exploration"])
            self._noise_std.copy_(state["noise_std"])
            self._context.copy_(self.task.context())
            if state["replay"] is not None:
                self.replay.load_state_dict(state["replay"])
        self._warm = state["warm"] and state["replay"] is not None
        self.iteration, self.env_steps = state["iteration"], state["env_steps"]
        self.generator.set_state(state["generator"].cpu())
        set_rng_state(state["random"])

    def _trained_on(self) -> dict[str, Any]:
        """Robot and clips by name, as plain values."""
        command = self.task.command
        return {
            "joints": list(self.task.data.joint_names),
            "bodies": list(self.task.data.body_names),
            "clips": dict(zip(command.clip_names, command.clip_lengths.tolist(), strict=True)),
            "motions": dict(command.clip_hashes),
            "physics": dict(self.env.physics.fingerprint()),
        }
