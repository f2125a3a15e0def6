"""Managers whose work in a step is Warp code that a graph can hold."""

from __future__ import annotations

from lab_warp.managers.action_manager import ActionManagerWarp
from lab_warp.managers.command_manager import CommandManagerWarp
from lab_warp.managers.curriculum_manager import CurriculumManagerWarp
from lab_warp.managers.event_manager import EventManagerWarp
from lab_warp.managers.metrics_manager import MetricsManagerWarp
from lab_warp.managers.observation_manager import ObservationManagerWarp
from lab_warp.managers.reward_manager import RewardManagerWarp
from lab_warp.managers.termination_manager import TerminationManagerWarp

__all__ = [
    "ActionManagerWarp",
    "CommandManagerWarp",
    "CurriculumManagerWarp",
    "EventManagerWarp",
    "MetricsManagerWarp",
    "ObservationManagerWarp",
    "RewardManagerWarp",
    "TerminationManagerWarp",
]
