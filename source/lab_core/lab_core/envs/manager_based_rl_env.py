"""Environments whose actions, observations, rewards, ... are lists of terms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from lab_core.config import MISSING
from lab_core.envs.observations import Observations
from lab_core.envs.rl_env import RLEnv
from lab_core.envs.rl_env_cfg import RLEnvCfg
from lab_core.managers import (
    ActionManager,
    ActionTermCfg,
    CommandManager,
    CommandTermCfg,
    CurriculumManager,
    CurriculumTermCfg,
    MetricsManager,
    MetricTermCfg,
    ObservationGroupCfg,
    ObservationManager,
    RewardManager,
    RewardTermCfg,
    TerminationManager,
    TerminationTermCfg,
)


@dataclass(kw_only=True)
class ManagerBasedRLEnvCfg(RLEnvCfg):
    """Terms by name. A term set to None is off; the order of a dictionary is the order of evaluation."""

    observations: dict[str, ObservationGroupCfg] = MISSING
    actions: dict[str, ActionTermCfg | None] = MISSING
    rewards: dict[str, RewardTermCfg | None] = MISSING
    terminations: dict[str, TerminationTermCfg | None] = MISSING
    commands: dict[str, CommandTermCfg | None] = field(default_factory=dict)
    curriculum: dict[str, CurriculumTermCfg | None] = field(default_factory=dict)
    metrics: dict[str, MetricTermCfg | None] = field(default_factory=dict)

    def build(self, device: str | torch.device = "cpu") -> ManagerBasedRLEnv:
        return ManagerBasedRLEnv(self, device)


class ManagerBasedRLEnv(RLEnv):
    """An environment made of managers; see :class:`RLEnv` for the step."""

    cfg: ManagerBasedRLEnvCfg

    def _load_managers(self) -> None:
        cfg = self.cfg
        self.command_manager = CommandManager(cfg.commands, self)
        self.action_manager = ActionManager(cfg.actions, self)
        self.observation_manager = ObservationManager(cfg.observations, self)
        self.termination_manager = TerminationManager(cfg.terminations, self)
        self.reward_manager = RewardManager(cfg.rewards, self)
        self.curriculum_manager = CurriculumManager(cfg.curriculum, self)
        self.metrics_manager = MetricsManager(cfg.metrics, self)
        dones = self.termination_manager
        self.reset_terminated, self.reset_time_outs, self.reset_buf = dones.terminated, dones.time_outs, dones.dones
        self.reward_buf = self.scratch(self.reward_manager.reward)
        self.physics.ghost_sources.append(self.command_manager.ghosts)
        for manager in self._managers():
            self.physics.marker_sources.update(manager.marker_sources())
        self._set_spaces(self.action_manager.total_action_dim, self.observation_manager.group_obs_dim)

    def _managers(self) -> tuple[Any, ...]:
        """Returns the managers of terms, those of its own front end, in the order of a reset."""
        return (
            self.observation_manager,
            self.action_manager,
            self.reward_manager,
            self.curriculum_manager,
            self.command_manager,
            self.event_manager,
            self.termination_manager,
            self.metrics_manager,
        )

    def _process_actions(self) -> None:
        self.action_manager.process_actions(self._latest.actions)

    def _raise_for_invalid_actions(self) -> None:
        self.action_manager.raise_for_invalid()

    def _apply_actions(self) -> None:
        self.action_manager.apply_actions()

    def _compute_dones(self) -> None:
        self.termination_manager.compute()

    def _compute_reward(self) -> None:
        self.reward_manager.compute(self.step_dt)
        self.command_manager.update_metrics()
        self.metrics_manager.compute()

    def _compute_observations(self, update_history: bool | torch.Tensor) -> Observations:
        return self.observation_manager.compute(update_history=update_history)

    def _compute_curriculum(self, mask: torch.Tensor) -> None:
        self.curriculum_manager.compute(mask)

    def _compute_commands(self) -> None:
        self.command_manager.compute(self.step_dt)

    def _refresh_commands(self, mask: torch.Tensor) -> None:
        self.command_manager.refresh(mask)

    def _reset_managers(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        log: dict[str, torch.Tensor | float] = {}
        for manager in (*self._managers(), self.recorder_manager):
            log.update(manager.reset(mask))
        return log
