"""State of rsl-rl's PPO that its own checkpoints leave out."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from rsl_rl.algorithms import PPO


def unsaved_state(alg: PPO) -> dict[str, Any]:
    """Returns what the networks remember of running episodes, and what the reward for new states is divided by."""
    state = {}
    memories = {"actor": alg.actor.get_hidden_state(), "critic": alg.critic.get_hidden_state()}
    if any(memory is not None for memory in memories.values()):
        state["memories"] = copy.deepcopy(memories)
    if alg.rnd is not None:
        state["curiosity_steps"] = alg.rnd.update_counter
        if alg.rnd.reward_normalization:
            state["curiosity_return"] = copy.deepcopy(_average(alg).avg)
    return state


def restore_unsaved_state(alg: PPO, state: Mapping[str, Any]) -> None:
    """Restores what :func:`unsaved_state` returned."""
    for network, memory in state.get("memories", {}).items():
        getattr(alg, network).reset(hidden_state=_moved(memory, alg.device))
    if alg.rnd is not None and "curiosity_steps" in state:
        alg.rnd.update_counter = state["curiosity_steps"]
        if alg.rnd.reward_normalization:
            _average(alg).avg = _moved(state["curiosity_return"], alg.device)


def _average(alg: PPO) -> Any:
    """The discounted sum of rewards for new states, in every environment."""
    normalizer: Any = alg.rnd and alg.rnd.reward_normalizer
    return normalizer.disc_avg


def _moved(memory: Any, device: str) -> Any:
    if isinstance(memory, (tuple, list)):
        return tuple(part.to(device, copy=True) for part in memory)
    return None if memory is None else memory.to(device, copy=True)
