"""Managers: what an environment does in a step, as lists of named terms."""

from lab_core.managers.action_manager import ActionManager, ActionTerm, ActionTermCfg
from lab_core.managers.command_manager import CommandManager, CommandTerm, CommandTermCfg
from lab_core.managers.curriculum_manager import CurriculumManager, CurriculumTermCfg
from lab_core.managers.declare import declare
from lab_core.managers.errors import ActionError, TermError, UnknownTermError
from lab_core.managers.event_manager import EventManager, EventTermCfg
from lab_core.managers.finite_action import FiniteActionCheck
from lab_core.managers.manager_base import ManagerBase, ManagerTermBase, TermCfg
from lab_core.managers.metrics_manager import MetricsManager, MetricTermCfg
from lab_core.managers.observation_manager import ObservationGroupCfg, ObservationManager
from lab_core.managers.observation_term import ObservationTermCfg
from lab_core.managers.reward_manager import RewardManager, RewardTermCfg
from lab_core.managers.scene_entity_cfg import SceneEntityCfg
from lab_core.managers.termination_manager import TerminationManager, TerminationTermCfg

__all__ = [
    "ActionError",
    "ActionManager",
    "ActionTerm",
    "ActionTermCfg",
    "CommandManager",
    "CommandTerm",
    "CommandTermCfg",
    "CurriculumManager",
    "CurriculumTermCfg",
    "EventManager",
    "EventTermCfg",
    "FiniteActionCheck",
    "ManagerBase",
    "ManagerTermBase",
    "MetricTermCfg",
    "MetricsManager",
    "ObservationGroupCfg",
    "ObservationManager",
    "ObservationTermCfg",
    "RewardManager",
    "RewardTermCfg",
    "SceneEntityCfg",
    "TermCfg",
    "TermError",
    "TerminationManager",
    "TerminationTermCfg",
    "UnknownTermError",
    "declare",
]
