"""Checks that users and every package run on their own managers, terms and buffers."""

from lab_core.testing.analytic import AnalyticCartpoleBackend
from lab_core.testing.cartpole import analytic_cartpole_env_cfg
from lab_core.testing.reset_harness import check_masked_reset

__all__ = [
    "AnalyticCartpoleBackend",
    "analytic_cartpole_env_cfg",
    "check_masked_reset",
]
