"""Checks of Warp twins, and rollouts of Warp environments to compare."""

from lab_warp.testing.captured_event import CapturedEvent
from lab_warp.testing.fake_env import FakeEnv
from lab_warp.testing.rollouts import assert_same_results, rollout, same_bits, step_report, step_results
from lab_warp.testing.twin_gate import TwinCase, check_event_twin, check_signature, check_value_twin, twins_in

__all__ = [
    "FakeEnv",
    "CapturedEvent",
    "TwinCase",
    "assert_same_results",
    "check_event_twin",
    "check_signature",
    "check_value_twin",
    "rollout",
    "same_bits",
    "step_report",
    "step_results",
    "twins_in",
]
