"""Learning algorithms, one folder each, and what they share."""

from lab_rl.algorithms.base import (
    Algorithm,
    Iteration,
    Panel,
    Policy,
    Runner,
    algorithm_names,
    get_algorithm,
    make_agent_cfg,
)
from lab_rl.algorithms.statistics import EpisodeStatistics, StepLogs

__all__ = [
    "Algorithm",
    "EpisodeStatistics",
    "Iteration",
    "Panel",
    "Policy",
    "Runner",
    "StepLogs",
    "algorithm_names",
    "get_algorithm",
    "make_agent_cfg",
]
