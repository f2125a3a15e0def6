"""Recording a number of episodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lab_core.datasets.episode import EpisodeInfo
from lab_core.envs import RLEnv
from lab_core.rollouts.policies import Policy


class EpisodeQuota:
    """Decides which complete episodes belong to a recording of ``episodes`` episodes.

    Every environment gives its first ones, as many as any other: taking those that end first would prefer short
    episodes. With ``first_to_end``, those are taken all the same.
    """

    def __init__(self, episodes: int, num_envs: int, first_to_end: bool = False) -> None:
        self.episodes = episodes
        self.taken = 0
        """Episodes so far."""
        self._first_to_end = first_to_end
        self._of_env = np.full(num_envs, episodes // num_envs)
        self._of_env[: episodes % num_envs] += 1

    @property
    def reached(self) -> bool:
        """Whether all episodes are there."""
        return self.taken >= self.episodes

    def takes(self, info: EpisodeInfo) -> bool:
        """Whether to take this episode; asked once for each that would be written."""
        its_turn = self._first_to_end or info.episode_index < self._of_env[info.env_id]
        takes = bool(info.complete and not self.reached and its_turn)
        self.taken += takes
        return takes


def collect_episodes(
    env: RLEnv,
    policy: Policy,
    reached: Callable[[], bool],
    after_step: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = lambda text: None,
) -> None:
    """Steps ``env`` with ``policy`` until ``reached()``.

    Args:
        env: With a recorder.
        policy: Chooses the actions.
        reached: Asked after every step.
        after_step: Called after every step.
        warn: Told what went wrong in the physics, about once per episode.
    """
    observations, step = env.get_observations(), 0
    while not reached():
        observations, *_ = env.step(policy(observations))
        after_step()
        step += 1
        if step % env.max_episode_length == 0:
            _report_health(env, warn)
    _report_health(env, warn)


def _report_health(env: RLEnv, warn: Callable[[str], None]) -> None:
    health = env.health()
    if health.non_finite_envs:
        warn(f"The physics of {health.non_finite_envs} environments failed; their episodes are marked non_finite.")
    for buffer, text in health.overflows.items():
        warn(f"Solver buffer {buffer} overflowed, contacts were lost: {text}")
