"""Proximal policy optimisation on rsl-rl."""

from lab_rl.algorithms.ppo.algorithm import PPOAlgorithm
from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.policy import PPOPolicy
from lab_rl.algorithms.ppo.runner import PPORunner
from lab_rl.algorithms.ppo.settings import rsl_rl_cfg

__all__ = ["PPOAlgorithm", "PPOPolicy", "PPORunner", "RslRlEnv", "rsl_rl_cfg"]
