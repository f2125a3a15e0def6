"""What goes wrong in the first steps of an environment, told before anybody asks."""

from __future__ import annotations

import warnings

import torch

from lab_core.physics import HealthReport, PhysicsBackend

LOOKS = (1, 10, 100)
"""Steps behind which the physics are asked; each waits once for the device."""


class FirstSteps:
    """Warns of solver buffers that are too small, and keeps what it read for the next ``health()``.

    What they lose makes robots sink into the ground, and a loop of one's own may never call ``health()``.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._seen = HealthReport()

    def look(self, physics: PhysicsBackend) -> None:
        """Counts a step, and asks ``physics`` behind some of the first; nothing is asked while a graph is captured, or
        where torch forbids to wait for the device."""
        self._steps += 1
        if self._steps not in LOOKS or (torch.cuda.is_available() and _must_not_wait()):
            return
        known = self._seen.overflows
        self._seen = self._add(physics.health())
        for buffer, text in self._seen.overflows.items():
            if buffer not in known:
                warnings.warn(
                    f"After {self._steps} steps: {buffer} overflowed, contacts or constraints were lost: {text}.",
                    stacklevel=3,
                )

    def health(self, physics: PhysicsBackend) -> HealthReport:
        """Returns what happened since the last call, with what was seen in the first steps."""
        report, self._seen = self._add(physics.health()), HealthReport()
        return report

    def _add(self, report: HealthReport) -> HealthReport:
        seen = self._seen
        return HealthReport(seen.non_finite_envs + report.non_finite_envs, seen.overflows | report.overflows)


def _must_not_wait() -> bool:
    return torch.cuda.is_current_stream_capturing() or torch.cuda.get_sync_debug_mode() != 0
