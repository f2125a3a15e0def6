"""Managers: what an environment does in a step, as lists of named terms."""

from lab_core.managers.action_manager import ActionManager, ActionTerm, ActionTermCfg
from lab_core.managers.built_term_manager import BuiltTerm, BuiltTermManager
from lab_core.managers.command_manager import CommandManager, CommandTerm, CommandTermCfg
from lab_core.managers.curriculum_manager import CurriculumManager, CurriculumTermCfg
from lab_core.managers.declare import declare
from lab_core.managers.errors import ActionError, TermError, UnknownTermError
from lab_core.managers.event_manager import EventManager, EventTermCfg
from lab_core.managers.finite_action import FiniteActionCheck
from lab_core.managers.manager_base import ManagerBase, ManagerTermBase, TermCfg, check_range, check_tensor
from lab_core.managers.metrics_manager import MetricsManager, MetricTermCfg
from lab_core.managers.observation_manager import GroupObservation, ObservationGroupCfg, ObservationManager
from lab_core.managers.observation_term import ObservationTermCfg
from lab_core.managers.reward_manager import RewardManager, RewardTermCfg
from lab_core.managers.scene_entity_cfg import SceneEntityCfg, resolve_scene_entities
from lab_core.managers.signature import complete_params
from lab_core.managers.termination_manager import TerminationManager, TerminationTermCfg
from lab_core.managers.timers import SLACK

__all__ = [
    "ActionError",
    "ActionManager",
    "ActionTerm",
    "ActionTermCfg",
    "BuiltTerm",
    "BuiltTermManager",
    "CommandManager",
    "CommandTerm",
    "CommandTermCfg",
    "CurriculumManager",
    "CurriculumTermCfg",
    "EventManager",
    "EventTermCfg",
    "FiniteActionCheck",
    "GroupObservation",
    "ManagerBase",
    "ManagerTermBase",
    "MetricTermCfg",
    "MetricsManager",
    "ObservationGroupCfg",
    "ObservationManager",
    "ObservationTermCfg",
    "RewardManager",
    "RewardTermCfg",
    "SLACK",
    "SceneEntityCfg",
    "TermCfg",
    "TermError",
    "TerminationManager",
    "TerminationTermCfg",
    "UnknownTermError",
    "check_range",
    "check_tensor",
    "complete_params",
    "declare",
    "resolve_scene_entities",
]
