"""How long bodies have been in contact or in the air, whatever tells that they touch."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lab_core.errors import LabError
from lab_core.names import match_names
from lab_core.sensors.sensor import SensorData


class ContactTimesData(SensorData):
    """Base of the sensors that see touches of N environments, B bodies; times in [s].

    Times are counted in whole substeps, so that no length of an episode blurs them.
    """

    kind = "contact sensor"
    """What messages call the sensor."""

    def __init__(self, num_envs: int, body_names: Sequence[str], dt: float, device: torch.device) -> None:
        """``body_names`` are the bodies found, in the entity's order; ``dt`` is the physics substep [s]."""
        bodies = (num_envs, len(body_names))
        self.body_names = tuple(body_names)
        self.dt = dt
        self.contact_steps = torch.zeros(*bodies, dtype=torch.int32, device=device)
        """(N, B) substeps since the present contact began; 0 in the air."""
        self.air_steps = torch.zeros(*bodies, dtype=torch.int32, device=device)
        """(N, B) substeps since the present flight began; 0 in contact."""
        self.current_contact_time = torch.zeros(bodies, device=device)
        """(N, B) duration of the present contact; 0 in the air."""
        self.current_air_time = torch.zeros(bodies, device=device)
        """(N, B) duration of the present flight; 0 in contact."""
        self.last_contact_time = torch.zeros(bodies, device=device)
        """(N, B) duration of the contact before the present flight."""
        self.last_air_time = torch.zeros(bodies, device=device)
        """(N, B) duration of the flight before the present contact."""

    def find_bodies(self, patterns: str | Sequence[str], preserve_order: bool = False) -> list[int]:
        """Returns indices into the sensor's bodies; see :func:`match_names`."""
        return match_names(patterns, self.body_names, what=f"body of the {self.kind}", preserve_order=preserve_order)

    def compute_first_contact(self, duration: float) -> torch.Tensor:
        """Returns (N, B) bool: bodies whose present contact began within the last ``duration`` seconds.

        Raises:
            LabError: ``duration`` is shorter than a physics step.
        """
        return (self.contact_steps > 0) & (self.contact_steps <= self._steps(duration))

    def _steps(self, duration: float) -> int:
        steps = round(duration / self.dt)
        if steps < 1:
            raise LabError(f"The duration must be at least one physics step of {self.dt} s, got {duration} s.")
        return steps
