"""Too small buffers of a solver are told in the first steps, and still are part of the next report."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from lab_core.envs.first_steps import LOOKS, FirstSteps
from lab_core.physics import HealthReport


class Physics:
    """Counts who asks, and answers with one report after another."""

    def __init__(self, *reports: HealthReport) -> None:
        self.reports, self.asked = list(reports), 0

    def health(self) -> HealthReport:
        self.asked += 1
        return self.reports.pop(0) if self.reports else HealthReport()


def test_an_overflow_is_told_once_and_kept_for_the_next_report():
    first, physics = (
        FirstSteps(),
        Physics(HealthReport(1, {"rows": "raise njmax to 9"}), HealthReport(2, {"rows": "x"})),
    )
    given: Any = physics
    with pytest.warns(UserWarning, match="After 1 steps: rows overflowed.*: raise njmax to 9"):
        first.look(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(30):
            first.look(given)
    assert first.health(given) == HealthReport(3, {"rows": "x"})
    assert first.health(given).ok


def test_it_asks_in_few_of_the_first_steps_only():
    first, physics = FirstSteps(), Physics()
    given: Any = physics
    for _ in range(500):
        first.look(given)
    assert physics.asked == len(LOOKS) == 3
