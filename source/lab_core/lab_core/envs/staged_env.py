"""What the stages of a step call: those that all environments share, and those that a kind of environment adds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch

from lab_core.envs.latest_step import LatestStep
from lab_core.envs.observations import Observations, write_observations
from lab_core.masks import masked_copy_
from lab_core.physics import PhysicsBackend
from lab_core.recorder import RecorderHooks
from lab_core.scene import Scene


class StagedEnv(ABC):
    """The methods that :data:`lab_core.envs.stages.STEP` names, over what :class:`~lab_core.envs.RLEnv` builds."""

    cfg: Any  # an RLEnvCfg
    physics: PhysicsBackend
    scene: Scene
    log: Any
    event_manager: Any
    step_dt: float
    reset_buf: torch.Tensor
    reset_mask: torch.Tensor
    _recorder: RecorderHooks
    _latest: LatestStep
    _observations: Observations
    _step_count: int
    _episode_length: torch.Tensor

    @property
    def step_count(self) -> int:
        """Steps that the environment has made since it was built."""
        return self._step_count

    @step_count.setter
    def step_count(self, count: int) -> None:
        self._step_count = count

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """(N,) int64 steps since the last reset. Assigning copies into the buffer, whose address graphs hold."""
        return self._episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, value: torch.Tensor) -> None:
        self._episode_length.copy_(value)

    # Stages of a step ----------------------------------------------------------------------------------------------

    def _take_actions(self, actions: torch.Tensor) -> None:
        """Hands over the action (N, A), before the stages."""
        self._latest.actions = actions

    def _record(self, hook: str) -> None:
        """Calls a hook of the recorder."""
        call = getattr(self._recorder, hook)
        call(self.reset_mask) if hook in ("record_pre_reset", "record_post_reset") else call()

    def _step_physics(self) -> None:
        self.physics.step(self.cfg.decimation)

    def _update_terminations(self) -> None:
        """Counts the step, and decides which environments to reset."""
        self.episode_length_buf.add_(1)
        self._step_count += 1
        self._compute_dones()
        self._announce_reset(self.reset_buf)

    def _observe_end(self) -> None:
        """Observes the end of the step, into ``final_obs_buf``."""
        self._latest.final_obs = self._compute_observations(update_history=False)

    def _reset_done(self) -> None:
        """Resets the environments whose episodes ended."""
        self._reset_envs()

    def _observe(self) -> None:
        """Observes the state that the next action acts on, into ``obs_buf``."""
        self._latest.observations = self._compute_observations(update_history=True)
        write_observations(self._observations, self._latest.observations)

    def _reset_envs(self, state: Mapping[str, Any] | None = None, is_relative: bool = False) -> None:
        """Resets the environments of ``reset_mask``. Managers come after the state, drawn or given: terms that measure
        changes begin where the episode does."""
        mask = self.reset_mask
        self._compute_curriculum(mask)
        self.scene.reset(mask)
        self._draw_state(mask)
        if state is not None:
            self.scene.set_state(state, mask, is_relative)
        self.log.update(self._reset_managers(mask), mask.any())
        masked_copy_(self.episode_length_buf, 0, mask)
        self.physics.forward()
        self._refresh_commands(mask)

    def _announce_reset(self, mask: torch.Tensor) -> None:
        self.reset_mask.copy_(mask)
        self._latest.reset_ids = None

    # What kinds of environments add --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Creates what managers need, when scene and buffers exist and no manager does."""

    @abstractmethod
    def _load_managers(self) -> None:
        """Creates managers and spaces."""

    @abstractmethod
    def _process_actions(self) -> None:
        """Checks and stores the action that was handed over."""

    @abstractmethod
    def _raise_for_invalid_actions(self) -> None:
        """Raises :class:`ActionError` if an action since the last call was not finite."""

    @abstractmethod
    def _apply_actions(self) -> None:
        """Writes joint targets."""

    @abstractmethod
    def _compute_dones(self) -> None:
        """Fills ``reset_terminated``, ``reset_time_outs`` and ``reset_buf`` (their union)."""

    @abstractmethod
    def _compute_reward(self) -> None:
        """Fills ``reward_buf``."""

    @abstractmethod
    def _compute_observations(self, update_history: bool | torch.Tensor) -> Observations:
        """Returns owned observations; delays and histories advance everywhere, nowhere, or where a mask says so."""

    def _compute_curriculum(self, mask: torch.Tensor) -> None:
        """Adapts the difficulty before the environments of ``mask`` are reset."""

    def _draw_state(self, mask: torch.Tensor) -> None:
        """Writes a start state into the environments of ``mask``, which hold the default state."""
        self.event_manager.apply("reset", mask=mask, step_count=self.step_count)

    def _compute_commands(self) -> None:
        """Moves commands on, before the reset."""

    def _apply_interval_events(self) -> None:
        """Applies the events that are due, before the reset."""
        if self.event_manager.has_mode("interval"):
            self.event_manager.apply("interval", dt=self.step_dt)
            self.physics.forward()

    def _refresh_commands(self, mask: torch.Tensor) -> None:
        """Adapts the commands of ``mask`` to the state after a reset."""

    def _reset_managers(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Resets managers, in the state that the episode starts from, and returns what they log."""
        return self.event_manager.reset(mask) | self._recorder.reset(mask)
