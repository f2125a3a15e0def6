"""Names the source of NaN and infinite values before they reach the networks."""

from __future__ import annotations

import torch
from rsl_rl.algorithms import PPO
from tensordict import TensorDict

from lab_core.envs import RLEnv
from lab_core.errors import LabError
from lab_rl.term_widths import observation_terms

_REWARD = "the reward"


class NonFiniteError(LabError, FloatingPointError):
    """A rollout or an update produced NaN or infinite values."""


def rollout_tensors(alg: PPO, rewards: torch.Tensor, last: TensorDict) -> list[tuple[str, torch.Tensor]]:
    """What an iteration collected, causes before their effects: name and (T, N, ...).

    Args:
        alg: Holds the rollout.
        rewards: (T, N) rewards as the environment gave them.
        last: The observations after the last step.
    """
    storage = alg.storage
    return [
        *observation_tensors(storage.observations),
        *observation_tensors(last.unsqueeze(0)),
        (_REWARD, rewards),
        ("the policy's action", storage.actions),
        ("the critic's value", storage.values),
        ("the critic's value of a final observation", storage.rewards),  # holds the bootstrapped value
        ("the return", storage.returns),
    ]


def observation_tensors(observations: TensorDict) -> list[tuple[str, torch.Tensor]]:
    """Name and values of every group of ``observations`` (T, N, ...)."""
    return [(_group_name(str(group)), observations.get(group)) for group in observations.keys()]


def describe(name: str, values: torch.Tensor, env: RLEnv) -> str:
    """Says where ``values`` (T, N, ...) are not finite. It reads them on the host."""
    bad = ~values.isfinite().cpu().reshape(*values.shape[:2], -1)
    anywhere = bad.any(-1)
    ids = anywhere.any(0).nonzero().flatten().tolist()
    columns = bad.flatten(0, 1).any(0).nonzero().flatten().tolist()
    terms = _reward_terms(env) if name == _REWARD else _observation_terms(name, columns, env)
    source = f" (term {', '.join(map(repr, terms))})" if terms else ""
    return (
        f"{name}{source} is not finite in {len(ids)} of {anywhere.shape[1]} environments "
        f"({', '.join(map(str, ids[:8]))}{', ...' if len(ids) > 8 else ''}), first in step "
        f"{int(anywhere.any(1).int().argmax())} of {len(anywhere)}"
    )


def _group_name(group: str) -> str:
    return f"observation group {group!r}"


def _observation_terms(group_name: str, columns: list[int], env: RLEnv) -> list[str]:
    """The terms that ``columns`` of an observation group belong to; none for other values."""
    names, start = [], 0
    for group, terms in observation_terms(env).items():
        if _group_name(group) == group_name:
            for term, width in terms:
                if any(start <= column < start + width for column in columns):
                    names.append(term)
                start += width
    return names


def _reward_terms(env: RLEnv) -> list[str]:
    """The reward terms that are not finite, as far as their episodes still run. A direct environment has none."""
    manager = getattr(env, "reward_manager", None)
    return [] if manager is None else manager.non_finite_terms()
