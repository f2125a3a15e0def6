"""Managers: what an environment does in a step, as lists of named terms."""

from lab_core.managers.action_manager import ActionManager, ActionTerm, ActionTermCfg, ActionTerms
from lab_core.managers.built_terms import BuiltTerm, BuiltTerms
from lab_core.managers.checks import check_number, check_range, check_tensor
from lab_core.managers.command_manager import CommandManager, CommandTerm, CommandTermCfg, CommandTerms
from lab_core.managers.curriculum_manager import CurriculumManager, CurriculumTermCfg, CurriculumTerms
from lab_core.managers.declarations import declare
from lab_core.managers.errors import ActionError, TermError, UnknownTermError
from lab_core.managers.event_manager import EventManager, EventTermCfg, EventTerms
from lab_core.managers.finite_action import FiniteActionCheck
from lab_core.managers.function_terms import FunctionTerms, ManagerTermBase, TermCfg
from lab_core.managers.manager_base import ManagerBase
from lab_core.managers.metrics_manager import MetricsManager, MetricTermCfg, MetricTerms
from lab_core.managers.observation_manager import (
    GroupObservation,
    ObservationGroupCfg,
    ObservationManager,
    ObservationTerms,
)
from lab_core.managers.observation_term import ObservationTermCfg
from lab_core.managers.raised import raise_named
from lab_core.managers.reward_manager import RewardManager, RewardTermCfg, RewardTerms
from lab_core.managers.selections import SceneEntityCfg, Selection, resolve_selections
from lab_core.managers.signature import complete_params
from lab_core.managers.termination_manager import TerminationManager, TerminationTermCfg, TerminationTerms
from lab_core.managers.timers import SLACK

__all__ = [
    "ActionError",
    "ActionManager",
    "ActionTerm",
    "ActionTermCfg",
    "ActionTerms",
    "BuiltTerm",
    "BuiltTerms",
    "CommandManager",
    "CommandTerm",
    "CommandTermCfg",
    "CommandTerms",
    "CurriculumManager",
    "CurriculumTermCfg",
    "CurriculumTerms",
    "EventManager",
    "EventTermCfg",
    "EventTerms",
    "FiniteActionCheck",
    "FunctionTerms",
    "GroupObservation",
    "ManagerBase",
    "ManagerTermBase",
    "MetricTermCfg",
    "MetricTerms",
    "MetricsManager",
    "ObservationGroupCfg",
    "ObservationManager",
    "ObservationTermCfg",
    "ObservationTerms",
    "RewardManager",
    "RewardTermCfg",
    "RewardTerms",
    "SLACK",
    "SceneEntityCfg",
    "Selection",
    "TermCfg",
    "TermError",
    "TerminationManager",
    "TerminationTermCfg",
    "TerminationTerms",
    "UnknownTermError",
    "check_number",
    "check_range",
    "check_tensor",
    "complete_params",
    "declare",
    "raise_named",
    "resolve_selections",
]
