"""Gaps between bodies and what is around them, and how long bodies touch it: contacts without forces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lab_core.sensors.contact_times import ContactTimesData
from lab_core.sensors.sensor import SensorCfg


@dataclass(kw_only=True)
class GapSensorCfg(SensorCfg):
    """Gaps of some bodies of an entity; read in every physics substep, from geometry alone.

    It measures in a learned model what a :class:`ContactSensorCfg` measures in a solver that knows forces.
    """

    body_names: tuple[str, ...] = (".*",)
    """Names or regular expressions of the bodies."""
    history_length: int = 4
    """Number of physics substeps that ``touch_history`` keeps; as long as the decimation, it misses none."""
    touch_threshold: float = 0.001
    """A body touches something when the gap between the surfaces is smaller [m]."""
    distance: float = 0.05
    """Gap up to which surfaces are looked at, and which is given where nothing is nearer [m]."""
    capacity: int | None = None
    """Contacts per environment of the set that all who look at contacts share, see :class:`ContactSetCfg`. None: what
    another one asks for, else 32."""


class GapSensorData(ContactTimesData):
    """Measurements of N environments, B bodies, H substeps.

    A gap is the distance between surfaces [m], negative inside, to what the body can push against: the ground, other
    entities, and parts of the entity that no joint connects to the body's own part. It is that of the state in which
    the latest substep began, as are the forces of a contact sensor.
    """

    kind = "gap sensor"

    def __init__(
        self, cfg: GapSensorCfg, num_envs: int, body_names: Sequence[str], dt: float, device: torch.device
    ) -> None:
        """``body_names`` are the bodies found, in the entity's order; ``dt`` is the physics substep [s]."""
        super().__init__(num_envs, body_names, dt, device)
        bodies = len(self.body_names)
        self.touch_threshold = cfg.touch_threshold
        self.distance = cfg.distance
        self.min_gap = torch.full((num_envs, bodies), cfg.distance, device=device)
        """(N, B) smallest gap in the latest substep; ``distance`` where nothing was nearer."""
        self.touch_history = torch.zeros(num_envs, cfg.history_length, bodies, dtype=torch.bool, device=device)
        """(N, H, B) whether the body touched something, the newest first."""
