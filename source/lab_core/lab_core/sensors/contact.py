"""Contact forces on bodies, and how long bodies have been in contact or in the air."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lab_core.errors import LabError
from lab_core.names import match_names
from lab_core.sensors.sensor import SensorCfg, SensorData


@dataclass(kw_only=True)
class ContactSensorCfg(SensorCfg):
    """Forces on some bodies of an entity; read in every physics substep."""

    body_names: tuple[str, ...] = (".*",)
    """Names or regular expressions of the bodies."""
    history_length: int = 4
    """Number of physics substeps that ``net_forces_w_history`` keeps; as long as the decimation, it misses none."""
    force_threshold: float = 1.0
    """A body is in contact when the norm of its net force is greater [N]."""
    filter_entities: tuple[str, ...] | None = None
    """Also give the force from each of these other parties alone: entity names, ``"terrain"``, or
    ``entity/body``. None: no ``force_matrix_w``."""


class ContactSensorData(SensorData):
    """Measurements of N environments, B bodies, H substeps, M filtered parties.

    Forces are in the world frame [N], times in [s].

    Times are counted in whole substeps, so that no length of an episode blurs them.
    """

    def __init__(
        self, cfg: ContactSensorCfg, num_envs: int, body_names: Sequence[str], dt: float, device: torch.device
    ) -> None:
        """``body_names`` are the bodies found, in the entity's order; ``dt`` is the physics substep [s]."""
        bodies = (num_envs, len(body_names))
        self.body_names = tuple(body_names)
        self.dt = dt
        self.force_threshold = cfg.force_threshold
        self.net_forces_w = torch.zeros(*bodies, 3, device=device)
        """(N, B, 3) net contact force of the latest substep."""
        self.net_forces_w_history = torch.zeros(num_envs, cfg.history_length, len(body_names), 3, device=device)
        """(N, H, B, 3), the newest first."""
        self.force_matrix_w = (
            None if cfg.filter_entities is None else torch.zeros(*bodies, len(cfg.filter_entities), 3, device=device)
        )
        """(N, B, M, 3) force from each filtered party."""
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
        return match_names(patterns, self.body_names, what="body of the contact sensor", preserve_order=preserve_order)

    def compute_first_contact(self, duration: float) -> torch.Tensor:
        """Returns (N, B) bool: bodies whose present contact began within the last ``duration`` seconds."""
        return (self.contact_steps > 0) & (self.contact_steps <= self._steps(duration))

    def _steps(self, duration: float) -> int:
        steps = round(duration / self.dt)
        if steps < 1:
            raise LabError(f"The duration must be at least one physics step of {self.dt} s, got {duration} s.")
        return steps
