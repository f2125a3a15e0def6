"""What drives an environment that learns nothing: policies, collecting and repeating episodes, timing, videos."""

from lab_core.rollouts.benchmark import BenchmarkError, StepTiming, synchronize, time_step
from lab_core.rollouts.collect import EpisodeQuota, collect_episodes
from lab_core.rollouts.contract import ContractError, check_contract, contract_differences, describe_contract
from lab_core.rollouts.evaluation import Evaluation, Evaluator
from lab_core.rollouts.learning_benchmark import LearningTiming, make_learner, time_learning
from lab_core.rollouts.policies import Policy, find_policy, make_policy
from lab_core.rollouts.replay import ReplayReport, build_replay_env, replay_episodes
from lab_core.rollouts.step_graphs import describe_step, step_graphs
from lab_core.rollouts.term_widths import Terms, action_terms, observation_terms
from lab_core.rollouts.video import VideoRecorder

__all__ = [
    "BenchmarkError",
    "ContractError",
    "EpisodeQuota",
    "Evaluation",
    "Evaluator",
    "LearningTiming",
    "Policy",
    "ReplayReport",
    "StepTiming",
    "Terms",
    "VideoRecorder",
    "action_terms",
    "build_replay_env",
    "check_contract",
    "collect_episodes",
    "contract_differences",
    "describe_contract",
    "describe_step",
    "find_policy",
    "make_learner",
    "make_policy",
    "observation_terms",
    "replay_episodes",
    "step_graphs",
    "synchronize",
    "time_learning",
    "time_step",
]
