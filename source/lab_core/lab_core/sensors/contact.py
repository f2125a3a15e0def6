"""Contact forces on bodies, and how long bodies have been in contact or in the air."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lab_core.markers import ORANGE, ArrowMarkers, Markers
from lab_core.sensors.contact_times import ContactTimesData
from lab_core.sensors.sensor import Carrier, SensorCfg

_GRAVITY = 9.81
"""For the length of arrows [m/s^2]."""


@dataclass(kw_only=True)
class ContactSensorCfg(SensorCfg):
    """Forces on some bodies of an entity; read in every physics substep."""

    body_names: tuple[str, ...] = (".*",)
    """Names or regular expressions of the bodies."""
    history_length: int = 4
    """Number of physics substeps that the histories keep; as long as the decimation, they miss none."""
    force_threshold: float = 1.0
    """A body is in contact when the norm of its net force is greater [N]."""
    filter_entities: tuple[str, ...] | None = None
    """Also give the force from each of these other parties alone: entity names, ``"terrain"``, or
    ``entity/body``. None: no ``force_matrix_w`` and no history of it."""


class ContactSensorData(ContactTimesData):
    """Measurements of N environments, B bodies, H substeps, M filtered parties.

    Forces are in the world frame [N].
    """

    traceable = ("net_forces_w",)

    def __init__(
        self, cfg: ContactSensorCfg, num_envs: int, body_names: Sequence[str], dt: float, device: torch.device
    ) -> None:
        """``body_names`` are the bodies found, in the entity's order; ``dt`` is the physics substep [s]."""
        super().__init__(num_envs, body_names, dt, device)
        bodies = (num_envs, len(body_names))
        self.force_threshold = cfg.force_threshold
        self.net_forces_w = torch.zeros(*bodies, 3, device=device)
        """(N, B, 3) net contact force of the latest substep."""
        self.net_forces_w_history = torch.zeros(num_envs, cfg.history_length, len(body_names), 3, device=device)
        """(N, H, B, 3), the newest first."""
        self.force_matrix_w = (
            None if cfg.filter_entities is None else torch.zeros(*bodies, len(cfg.filter_entities), 3, device=device)
        )
        """(N, B, M, 3) force from each filtered party in the latest substep."""
        self.force_matrix_w_history = (
            None
            if cfg.filter_entities is None
            else torch.zeros(num_envs, cfg.history_length, len(body_names), len(cfg.filter_entities), 3, device=device)
        )
        """(N, H, B, M, 3), the newest first."""

    def markers(self, carrier: Carrier) -> Sequence[Markers]:
        """Returns the net forces, as arrows from the bodies' origins: one of the carrier's weight is 1 m long."""
        bodies = [carrier.body_names.index(name) for name in self.body_names]
        weight = _GRAVITY * carrier.body_mass.sum(dim=1)[:, None, None]
        start = carrier.body_link_pose_w[:, bodies, :3]
        return (ArrowMarkers(start_w=start, vector_w=self.net_forces_w / weight, color=ORANGE),)
