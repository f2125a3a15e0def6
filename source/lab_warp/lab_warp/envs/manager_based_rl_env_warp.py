"""Manager-based environments as Warp code."""

from __future__ import annotations

import torch

from lab_core.capability import Capability, all_capable
from lab_core.envs import ManagerBasedRLEnv
from lab_warp.envs.warp_rl_env import WarpRLEnv
from lab_warp.managers import (
    ActionManagerWarp,
    CommandManagerWarp,
    CurriculumManagerWarp,
    MetricsManagerWarp,
    ObservationManagerWarp,
    RewardManagerWarp,
    TerminationManagerWarp,
)
from lab_warp.views import Shared


class ManagerBasedRLEnvWarp(WarpRLEnv, ManagerBasedRLEnv):
    """Built from the configuration of :class:`ManagerBasedRLEnv`; every term is replaced by its twin."""

    action_manager: ActionManagerWarp
    command_manager: CommandManagerWarp
    observation_manager: ObservationManagerWarp
    termination_manager: TerminationManagerWarp
    reward_manager: RewardManagerWarp
    curriculum_manager: CurriculumManagerWarp
    metrics_manager: MetricsManagerWarp

    def _load_managers(self) -> None:
        cfg = self.cfg
        self.command_manager = CommandManagerWarp(cfg.commands, self)
        self.action_manager = ActionManagerWarp(cfg.actions, self)
        self.observation_manager = ObservationManagerWarp(cfg.observations, self)
        self.termination_manager = TerminationManagerWarp(cfg.terminations, self)
        self.reward_manager = RewardManagerWarp(cfg.rewards, self)
        self.curriculum_manager = CurriculumManagerWarp(cfg.curriculum, self)
        self.metrics_manager = MetricsManagerWarp(cfg.metrics, self)
        self._observations = self.observation_manager.now
        self._latest.final_obs = self.observation_manager.end if cfg.compute_final_obs else {}
        self.reward_buf = self.scratch(self.reward_manager.reward)
        dones = self.termination_manager
        self.reset_terminated, self.reset_time_outs, self.reset_buf = dones.terminated, dones.time_outs, dones.dones
        self.physics.ghost_sources.append(self.command_manager.ghosts)
        for manager in self._managers():
            self.physics.marker_sources.update(manager.marker_sources())
        self._set_spaces(self.action_manager.total_action_dim, self.observation_manager.group_obs_dim)

    @property
    def _flags_buf(self) -> torch.Tensor:
        return self.termination_manager.flags

    def _take_actions(self, actions: torch.Tensor) -> None:
        self.action_manager.take_actions(actions)

    def _copy_settings(self) -> None:
        super()._copy_settings()
        self.termination_manager.copy_settings()
        self.metrics_manager.copy_settings()
        self.reward_manager.copy_settings()
        self.observation_manager.copy_settings()
        self.command_manager.copy_shared()

    def _process_actions(self) -> None:
        self.action_manager.process_actions()

    def _compute_dones(self) -> None:
        self.termination_manager.compute()

    def _compute_reward(self) -> None:
        self.reward_manager.compute(self.step_dt)
        self.command_manager.update_metrics()
        self.metrics_manager.compute()

    def _observe(self, mask: Shared | None = None) -> None:
        self.observation_manager.compute(mask)

    def _observe_end(self) -> None:
        self.observation_manager.compute_end()

    def _reset_capability(self) -> Capability:
        managers = (
            self.curriculum_manager,
            self.observation_manager,
            self.action_manager,
            self.reward_manager,
            self.command_manager,
            self.termination_manager,
            self.metrics_manager,
        )
        return all_capable([super()._reset_capability(), *(manager.capturable for manager in managers)])

    def _curriculum_masked(self) -> None:
        self.curriculum_manager.compute(self._reset)

    def _reset_managers_masked(self) -> None:
        for manager in self._managers():
            manager.reset(self._reset)

    def _refresh_masked(self) -> None:
        self.command_manager.refresh(self._reset)
