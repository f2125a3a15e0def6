"""The order of the numbers that a policy reads and writes."""

from __future__ import annotations

import math
from typing import Any

from lab_core.envs import RLEnv

Terms = list[tuple[str, int]]
"""Names and widths, in the order in which the terms follow one another."""


def observation_terms(env: RLEnv) -> dict[str, Terms]:
    """The terms of every observation group. A direct environment's groups have one term, named like the group."""
    manager = getattr(env, "observation_manager", None)
    if manager is None:
        spaces: Any = env.single_observation_space
        return {group: [(group, math.prod(space.shape))] for group, space in spaces.items()}
    return {
        group: [(name, math.prod(shape)) for name, shape in terms.items()]
        for group, terms in manager.group_obs_term_dim.items()
    }


def action_terms(env: RLEnv) -> Terms:
    """The action terms. A direct environment has one, named ``actions``."""
    manager = getattr(env, "action_manager", None)
    if manager is None:
        shape: Any = env.single_action_space.shape
        return [("actions", math.prod(shape))]
    return [(name, manager.get_term(name).action_dim) for name in manager.term_names]
