"""Environments whose task is written as methods of a class that launch Warp kernels."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import warp as wp

from lab_core.envs import Observations, RLEnv
from lab_core.managers import FiniteActionCheck
from lab_warp.env import EnvArrays
from lab_warp.envs.warp_rl_env import WarpRLEnv
from lab_warp.managers import kernels
from lab_warp.managers.noise import ColumnNoise
from lab_warp.views import Shared


@dataclass
class DirectEnvArrays(EnvArrays):
    """Warp arrays of a direct environment."""

    actions: wp.array
    """(N, A) action of this step."""
    prev_actions: wp.array
    """(N, A) action of the step before."""
    reward: wp.array
    """(N,) reward of this step."""
    terminated: wp.array
    """(N,) bool, episodes that failed or succeeded in this step."""
    time_outs: wp.array
    """(N,) bool, episodes that ran out of time in this step."""


class DirectRLEnvWarp(WarpRLEnv, RLEnv):
    """A task as methods of Warp launches, the twin of a :class:`lab_core.envs.DirectRLEnv`.

    A subclass writes :meth:`_apply_actions`, :meth:`_get_observations`, :meth:`_get_rewards`, :meth:`_get_dones`,
    :meth:`_reset_state` and, if it has buffers or logs values, :meth:`_reset_buffers`. They are part of the captured
    step: everything that they read from Python is fixed when it is captured, and their buffers are allocated in
    :meth:`_setup`.

    Attributes:
        actions: (N, A) action of this step; ``warp.actions`` is the same in Warp.
    """

    cfg: Any
    """Configuration in use, of the class whose twin this is."""
    log_names: ClassVar[tuple[str, ...]] = ()
    """Names of the values that :meth:`_reset_buffers` logs."""

    def _load_managers(self) -> None:
        cfg, device = self.cfg, self.device
        width = cfg.num_actions

        def flags(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.bool, device=device)

        self.actions = torch.zeros(self.num_envs, width, device=device)
        self.prev_actions = torch.zeros_like(self.actions)
        self._given = self.scratch(torch.zeros_like(self.actions))
        columns = {"action": slice(0, width)}
        self._action_check = FiniteActionCheck(self.num_envs, columns, width, device)
        self._flags, self._rows = flags(4, self.num_envs), self.scratch(flags(2, self.num_envs))
        self.reset_terminated, self.reset_time_outs, self.reset_buf = map(self.scratch, self._flags[:3])
        self._is_time_out = self.scratch(torch.tensor([False, True], device=device))
        self._dones, self._last_dones = flags(self.num_envs, 3), flags(self.num_envs, 3)
        self._now = torch.zeros(self.num_envs, cfg.num_observations, device=device)
        self._end = self.scratch(torch.zeros_like(self._now))
        self._observations = {"policy": self._now}
        self._latest.final_obs = {"policy": self._end} if cfg.compute_final_obs else {}
        self._log_slots, _ = self.log.reserve(self.log_names)
        self.warp = DirectEnvArrays(
            **vars(self.warp),
            actions=wp.from_torch(self.actions),
            prev_actions=wp.from_torch(self.prev_actions),
            reward=wp.from_torch(self.reward_buf),
            terminated=wp.from_torch(self.reset_terminated),
            time_outs=wp.from_torch(self.reset_time_outs),
        )
        self._action_inputs = [wp.from_torch(self._given)]
        self._action_outputs = [
            self.warp.actions,
            self.warp.prev_actions,
            wp.from_torch(self._action_check.non_finite_action),
        ]
        self._row_views = [wp.from_torch(row) for row in self._rows]
        self._done_inputs = [wp.from_torch(self._rows), wp.from_torch(self._is_time_out), self.warp.non_finite]
        self._done_outputs = [
            *(wp.from_torch(tensor) for tensor in (self._flags, self._dones, self._last_dones)),
            self.warp.reset_mask,
            self.warp.reset_count,
        ]
        self._now_view, self._end_view = wp.from_torch(self._now), wp.from_torch(self._end)
        self._action_noise = ColumnNoise(cfg.action_noise, width, device)
        self._observation_noise = ColumnNoise(cfg.observation_noise, cfg.num_observations, device)
        self._setup()
        self._set_spaces(width, {"policy": (cfg.num_observations,)})

    def _setup(self) -> None:
        """Creates the buffers of the task."""

    @abstractmethod
    def _apply_actions(self) -> None:
        """Writes joint targets from ``warp.actions``."""

    @abstractmethod
    def _get_observations(self, out: wp.array) -> None:
        """Writes the observations (N, D) float32."""

    @abstractmethod
    def _get_rewards(self, out: wp.array) -> None:
        """Writes the reward of the step (N,) float32. ``warp.terminated`` and ``warp.time_outs`` are known."""

    @abstractmethod
    def _get_dones(self, terminated: wp.array, time_outs: wp.array) -> None:
        """Writes which episodes end, and which run out of time, (N,) bool each."""

    @abstractmethod
    def _reset_state(self, mask: wp.array) -> None:
        """Writes a start state into the environments of ``mask`` (N,) bool, which hold the default state, and marks
        them in ``warp.written``."""

    def _reset_buffers(self, mask: wp.array, log: wp.array) -> None:
        """Clears the task's buffers in the environments of ``mask`` (N,) bool, which hold the state that the episode
        starts from: a drawn one, or one from outside. Values for ``log_names`` go into ``log`` (K,) float32 if
        ``warp.reset_count`` is greater than 0."""

    @property
    def _flags_buf(self) -> torch.Tensor:
        return self._flags

    def _take_actions(self, actions: torch.Tensor) -> None:
        self._given.copy_(self._action_check.checked(actions))

    def _raise_for_invalid_actions(self) -> None:
        self._action_check.raise_for_invalid()

    def _copy_settings(self) -> None:
        super()._copy_settings()
        self._action_noise.copy_settings()
        self._observation_noise.copy_settings()

    def _process_actions(self) -> None:
        wp.launch(
            kernels.take_action,
            dim=self.actions.shape,
            inputs=self._action_inputs,
            outputs=self._action_outputs,
            device=self.wp_device,
        )
        self._action_noise.apply(self, self.warp.actions)

    def _compute_dones(self) -> None:
        self._get_dones(*self._row_views)
        wp.launch(
            kernels.join_terminations,
            dim=self.num_envs,
            inputs=self._done_inputs,
            outputs=self._done_outputs,
            device=self.wp_device,
        )

    def _compute_reward(self) -> None:
        self._get_rewards(self.warp.reward)

    def _compute_observations(self, update_history: bool | torch.Tensor) -> Observations:
        raise NotImplementedError("A Warp environment computes its observations in the captured step.")

    def _observe(self, mask: Shared | None = None) -> None:
        self._get_observations(self._now_view)
        self._observation_noise.apply(self, self._now_view, mask and mask.warp)

    def _observe_end(self) -> None:
        self._get_observations(self._end_view)
        self._observation_noise.apply(self, self._end_view, advance=False)

    def _draw_state_masked(self) -> None:
        super()._draw_state_masked()
        self._reset_state(self.warp.reset_mask)

    def _reset_managers_masked(self) -> None:
        mask = self.warp.reset_mask
        wp.launch(
            kernels.clear_actions,
            dim=self.actions.shape,
            inputs=[mask],
            outputs=[self.warp.actions, self.warp.prev_actions],
            device=self.wp_device,
        )
        self._reset_buffers(mask, self._log_slots)
        super()._reset_managers_masked()
