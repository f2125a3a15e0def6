"""The training loop of distillation."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.algorithms import Distillation
from rsl_rl.storage import RolloutStorage

from lab_core.agents import DistillationCfg
from lab_core.envs import RLEnv
from lab_core.errors import LabError
from lab_core.seeding import rng_state, set_rng_state
from lab_rl.algorithms import EpisodeStatistics, Iteration, Runner, StepLogs
from lab_rl.algorithms.clock import IterationClock
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.finite import NonFiniteError
from lab_rl.algorithms.ppo.policy import PPOPolicy, build_network
from lab_rl.algorithms.ppo.settings import rsl_rl_processes
from lab_rl.distillation.settings import check_distillation_cfg, student_cfg
from lab_rl.distillation.teacher import Teacher, load_teacher
from lab_rl.processes import present_processes


class DistillationRunner(Runner):
    """Lets the student act, asks the teacher, and lets rsl-rl's distillation learn from it.

    Args:
        env: The environment; the runner resets it.
        cfg: The settings.

    Raises:
        LabError: The settings, or the teacher, do not fit the environment.
    """

    own_state = ("environment", "episodes", "random", "env_steps", "memory")

    def __init__(self, env: RLEnv, cfg: DistillationCfg) -> None:
        check_distillation_cfg(cfg)
        self.cfg, self.env, self.device = cfg, env, env.device
        self._processes = present_processes()
        assert cfg.teacher is not None
        policy = load_teacher(cfg.teacher, env)
        self.teacher = Teacher(policy)
        self.groups = tuple(cfg.obs_groups["student"])
        self.adapter = RslRlEnv(env, (*self.groups, *policy.groups), cfg.clip_actions)
        student = build_network(self.adapter, self.groups, student_cfg(cfg)).requires_grad_(True)
        observations = self.adapter.get_observations()
        shape = [self.adapter.num_actions]
        storage = RolloutStorage(
            "distillation", env.num_envs, cfg.num_steps_per_env, observations, shape, str(env.device)
        )
        teacher: Any = self.teacher
        self.alg = Distillation(
            student,
            teacher,
            storage,
            num_learning_epochs=cfg.num_learning_epochs,
            gradient_length=cfg.gradient_length,
            learning_rate=cfg.learning_rate,
            max_grad_norm=cfg.max_grad_norm,
            loss_type=cfg.loss,
            device=str(env.device),
            multi_gpu_cfg=rsl_rl_processes(self._processes),
        )
        self.alg.train_mode()
        if self.alg.is_multi_gpu:
            self.alg.broadcast_parameters()
        self.iteration = 0
        self.env_steps = 0
        self.episodes = EpisodeStatistics(env.num_envs, self.device)
        self._logs = StepLogs()
        self._rewards = torch.zeros(cfg.num_steps_per_env, env.num_envs, device=self.device)

    def policy(self) -> PPOPolicy:
        with torch.random.fork_rng():  # what a fresh network draws must not change the run
            student = build_network(self.adapter, self.groups, student_cfg(self.cfg), self._weights())
        return PPOPolicy(self.adapter, student, self.groups)

    def describe(self) -> str:
        return "Acts and learns in rsl-rl's own code, without graphs: distillation is not captured."

    def iterate(self) -> Iteration:
        """Runs one iteration.

        Raises:
            NonFiniteError: A reward, an action or a loss is NaN or infinite.
        """
        clock = IterationClock(self.device)
        with torch.inference_mode(), self._processes.failing_together():
            self._collect()
            self.episodes.update(self._rewards, self.alg.storage.dones.squeeze(-1).bool())
            with clock.waiting():
                report = self._read_rollout()
        clock.end("collection")
        losses = self.alg.update()
        with clock.waiting():
            health = self.env.health()
        clock.end("learning")
        if bad := [name for name, value in losses.items() if not math.isfinite(value)]:
            raise NonFiniteError(f"Iteration {self.iteration + 1}: the {bad[0]} loss is {losses[bad[0]]}.")
        self.iteration += 1
        self.env_steps += self._rewards.numel()
        rate = self._rewards.numel() / clock.seconds
        scalars = {name: value for name, value in report.items() if not math.isnan(value)}
        scalars |= {f"Loss/{name}": value for name, value in losses.items()}
        scalars |= {
            "Loss/learning_rate": self.alg.learning_rate,
            "Perf/total_fps": rate,
            **clock.scalars(),
            "Physics/non_finite_envs": float(health.non_finite_envs),
        }
        reward, length = scalars.get("Train/mean_reward"), scalars.get("Train/mean_episode_length")
        return Iteration(self.iteration, self.env_steps, rate, reward, length, scalars, health)

    def _collect(self) -> None:
        observations = self.adapter.get_observations()
        for step in range(self.cfg.num_steps_per_env):
            observations, rewards, dones, extras = self.adapter.step(self.alg.act(observations))
            self._rewards[step].copy_(rewards)
            self.alg.process_env_step(observations, rewards, dones, {})
            self.teacher.begin(dones.bool())
            self._logs.add(extras["log"], extras["reset_count"])

    def _read_rollout(self) -> dict[str, float]:
        storage = self.alg.storage
        checked = {
            "the reward": self._rewards,
            "the student's action": storage.actions,
            "the teacher's action": storage.privileged_actions,
        }
        logs = {name if "/" in name else f"Episode/{name}": value for name, value in self._logs.means().items()}
        reward, length = self.episodes.means()
        figures = {"Train/mean_reward": reward, "Train/mean_episode_length": length}
        figures |= {"Train/episodes": self.episodes.count, **logs}
        finite = [values.isfinite().all() for values in checked.values()]
        packed = torch.stack([value.double() for value in (*finite, *figures.values())]).tolist()
        for name, is_finite in zip(checked, packed, strict=False):
            if not is_finite:
                raise NonFiniteError(f"Iteration {self.iteration + 1}: {name} is not finite.")
        return dict(zip(figures, packed[len(finite) :], strict=True))

    def _weights(self) -> dict[str, Any]:
        return self.alg.get_policy().state_dict()

    def state_dict(self) -> dict[str, Any]:
        """All that decides the future of the run, but the teacher."""
        memory = {"now": self.alg.student.get_hidden_state(), "last": self.alg.last_hidden_states[0]}
        state = {
            "algorithm": {
                "student_state_dict": self._weights(),
                "optimizer_state_dict": self.alg.optimizer.state_dict(),
            },
            "environment": self.env.state_dict(),
            "episodes": self.episodes.state_dict(),
            "random": rng_state(),
            "memory": memory,
            "iteration": self.iteration,
            "env_steps": self.env_steps,
        }
        with torch.no_grad():
            return copy.deepcopy(_detached(state))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where :meth:`state_dict` was taken, at the configured learning rate. On a CPU bit for bit, unless
        the teacher has a memory, which begins anew.

        Raises:
            LabError: The state is of networks or of an environment of other sizes.
        """
        stored = copy.deepcopy(dict(state["algorithm"]))
        try:
            self.alg.get_policy().load_state_dict(stored["student_state_dict"])
            self.alg.optimizer.load_state_dict(stored["optimizer_state_dict"])
        except (RuntimeError, ValueError) as error:
            raise LabError(f"The stored networks do not fit the settings: {error}") from error
        for group in self.alg.optimizer.param_groups:
            group["lr"] = self.cfg.learning_rate
        self.iteration = state["iteration"]
        if "environment" not in state:
            self.env_steps = self.iteration * self._rewards.numel()
            return
        with torch.inference_mode():
            self.env.load_state_dict(state["environment"])
            self.episodes.load_state_dict(state["episodes"])
        memory = _moved(state["memory"], self.device)
        self.alg.student.reset(hidden_state=memory["now"])
        self.alg.last_hidden_states = (memory["last"], None)
        self.env_steps = state["env_steps"]
        set_rng_state(state["random"])


def _detached(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {key: _detached(item) for key, item in value.items()}
    return tuple(map(_detached, value)) if isinstance(value, tuple) else value


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    return tuple(_moved(item, device) for item in value) if isinstance(value, (list, tuple)) else value
