"""Checks that Warp twins of terms are safe to record and return what their torch terms return."""

from lab_warp.testing.fake_env import FakeEnv
from lab_warp.testing.recorded_event import RecordedEvent
from lab_warp.testing.twin_gate import TwinCase, check_event_twin, check_signature, check_value_twin, twins_in

__all__ = [
    "FakeEnv",
    "RecordedEvent",
    "TwinCase",
    "check_event_twin",
    "check_signature",
    "check_value_twin",
    "twins_in",
]
