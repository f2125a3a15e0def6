"""An environment in the form that rsl-rl asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from rsl_rl.env import VecEnv
from tensordict import TensorDict

from lab_core.envs import RLEnv
from lab_core.errors import LabError, unknown_name_message


class RslRlEnv(VecEnv):
    """Presents an :class:`RLEnv` to rsl-rl, also to rsl-rl's own runners.

    Observations are fresh memory in every step, as the environment returns them: rsl-rl keeps them by reference until
    after the next step. Environments whose episodes end reset themselves; the adapter resets all once, when it is made.

    Args:
        env: The environment.
        groups: Observation groups to pass on. None: all of them.
        clip_actions: Largest absolute action that the environment receives.

    Raises:
        LabError: ``env`` is wrapped or of another kind, or a group does not exist or is not one tensor (N, D).
    """

    def __init__(self, env: RLEnv, groups: Iterable[str] | None = None, clip_actions: float | None = None) -> None:
        if not isinstance(env, RLEnv):
            raise LabError(
                f"RslRlEnv adapts an RLEnv itself, got a {type(env).__name__}. Gymnasium wrappers such as TimeLimit "
                "count steps of all environments together; remove them."
            )
        self.env = env
        self.cfg = env.cfg
        self.num_envs = env.num_envs
        self.device = env.device
        self.num_actions = int(env.single_action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
        self.max_episode_length = env.max_episode_length
        self.clip_actions = clip_actions
        with torch.inference_mode():
            observations, _ = env.reset()
        self.groups = tuple(observations) if groups is None else tuple(dict.fromkeys(groups))
        for group in self.groups:
            _check_group(group, observations)

    @property
    def unwrapped(self) -> RLEnv:
        return self.env

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """(N,) int64 steps since the last reset. Assigning copies into the environment's buffer."""
        return self.env.episode_length_buf

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.env.episode_length_buf = value

    def get_observations(self) -> TensorDict:
        """The observations of the last step again, as copies."""
        return self._pack(self.env.get_observations())

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Steps all environments with ``actions`` (N, A).

        Returns:
            Observations; reward (N,); done (N,) int64; the environment's extras.
        """
        if self.clip_actions is not None:
            actions = actions.clamp(-self.clip_actions, self.clip_actions)
        observations, reward, terminated, truncated, extras = self.env.step(actions)
        return self._pack(observations), reward, (terminated | truncated).long(), extras

    def _pack(self, observations: dict[str, Any]) -> TensorDict:
        kept = {group: observations[group] for group in self.groups}
        return TensorDict(kept, batch_size=[self.num_envs], device=self.device)

    def close(self) -> None:
        self.env.close()


def _check_group(group: str, observations: dict[str, Any]) -> None:
    if group not in observations:
        raise LabError("agent.obs_groups: " + unknown_name_message("observation group", group, observations))
    value = observations[group]
    if not isinstance(value, torch.Tensor) or value.ndim != 2:
        what = f"of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else "kept as separate terms"
        raise LabError(
            f"Observation group {group!r} is {what}; the networks read groups of shape (N, D). "
            "Set concatenate_terms=True and flatten_history=True for it."
        )
