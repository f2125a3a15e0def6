"""What a task measures of a policy, beyond rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lab_core.envs import RLEnv
from lab_core.rollouts.policies import Policy


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Figures of a policy."""

    rows: Sequence[Mapping[str, Any]]
    """One per episode, with the same keys: text, truth and numbers."""
    summary: Mapping[str, Any]
    """Over all episodes; ``failed`` are how many were not done."""


class Evaluator(Protocol):
    """How a task evaluates policies; :attr:`lab_core.registry.TaskSpec.evaluator` names one."""

    def configure(self, cfg: Any, replicas: int) -> None:
        """Makes of an environment configuration for watching the one that policies are evaluated in, ``replicas``
        times each episode."""
        ...

    def evaluate(self, env: RLEnv, policy: Policy) -> Evaluation:
        """Resets ``env`` and measures ``policy`` in it."""
        ...
