"""What a policy earns in a model and in its teacher."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch

from lab_core.envs import make_env
from lab_newton import SolverCfg
from lab_rl.nerd.rollouts import with_solver
from lab_rl.runs.trained_policy import TrainedPolicy


@dataclass(frozen=True)
class Returns:
    """Undiscounted return per episode."""

    learned: float
    teacher: float
    episodes: int

    @property
    def gap(self) -> float:
        """How much more the model pays than its teacher, as a share of what the teacher pays."""
        return (self.learned - self.teacher) / abs(self.teacher) if self.teacher else float("nan")


def compare_returns(
    policy: TrainedPolicy, learned: SolverCfg, teacher: SolverCfg, num_envs: int, device: str
) -> Returns:
    """Plays one episode per environment with each of the two solvers, in the environment that the policy was trained
    in and from the same seed, and returns what it earned on average."""
    in_model, in_teacher = (mean_return(policy, solver, num_envs, device) for solver in (learned, teacher))
    return Returns(in_model, in_teacher, num_envs)


@torch.no_grad()
def mean_return(policy: TrainedPolicy, solver: SolverCfg, num_envs: int, device: str) -> float:
    """Returns the mean return of the first episode of each environment."""
    cfg = with_solver(copy.deepcopy(policy.cfg.env), solver)
    cfg.scene.num_envs = num_envs
    env = make_env(cfg, device, "torch")
    try:
        attached = policy.attach(env)
        observations, _ = env.reset()
        total = torch.zeros(num_envs, device=env.device)
        running = torch.ones(num_envs, dtype=torch.bool, device=env.device)
        for _ in range(env.max_episode_length):
            observations, reward, terminated, truncated, _ = env.step(attached.act(observations))
            total += torch.where(running, reward, 0.0)
            running &= ~(terminated | truncated)
            if not running.any():
                break
        return float(total.mean())
    finally:
        env.close()
