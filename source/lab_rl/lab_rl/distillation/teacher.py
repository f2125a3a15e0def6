"""The teacher: a trained policy in the form that rsl-rl's distillation asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict

from lab_core.envs import RLEnv
from lab_rl.algorithms import Policy
from lab_rl.runs.trained_policy import load_trained


def load_teacher(path: str, env: RLEnv) -> Policy:
    """Returns the policy in a run or checkpoint, for ``env``, which is reset.

    Raises:
        LabError: there is none, or it was made for another task, other joints, scales, timing or observations.
    """
    return load_trained(Path(path).expanduser()).attach(env)


class Teacher(torch.nn.Module):
    """A network of rsl-rl's that a policy computes, with no parameters of its own.

    Args:
        policy: The policy. What it remembers of episodes is up to who steps the environment, see :meth:`begin`.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self._policy = policy

    def begin(self, starts: torch.Tensor) -> None:
        """Forgets the episodes of the environments of ``starts`` (N,) bool, which are over."""
        if self._policy.memory:
            self._policy.forget(starts)

    def forward(self, obs: TensorDict) -> torch.Tensor:
        """Returns the actions (N, A) for observations of groups (N, D)."""
        return self._policy.act(obs)

    def reset(self, dones: torch.Tensor | None = None, hidden_state: Any = None) -> None:
        """Nothing: rsl-rl calls it while it learns, too, when no episode is over."""

    def get_hidden_state(self) -> None:
        """Nothing, for the same reason."""
