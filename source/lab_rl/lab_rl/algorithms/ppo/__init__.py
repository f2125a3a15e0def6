"""Proximal policy optimisation on rsl-rl."""

from lab_rl.algorithms.ppo.environment import RslRlEnv
from lab_rl.algorithms.ppo.policy import build_policy
from lab_rl.algorithms.ppo.runner import Iteration, PpoRunner
from lab_rl.algorithms.ppo.settings import rsl_rl_cfg

__all__ = ["Iteration", "PpoRunner", "RslRlEnv", "build_policy", "rsl_rl_cfg"]
