"""The force and torque that a body receives through the joint to its parent."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lab_core.config import MISSING
from lab_core.sensors.sensor import SensorCfg, SensorData


@dataclass(kw_only=True)
class JointWrenchCfg(SensorCfg):
    """Incoming joint wrenches of some bodies; read in the last substep of a step."""

    body_names: tuple[str, ...] = MISSING
    """Names or regular expressions of the bodies, in the order of the measurement."""


class JointWrenchData(SensorData):
    """Measurements of N environments and B bodies."""

    def __init__(self, body_names: tuple[str, ...], num_envs: int, device: torch.device) -> None:
        self.body_names = body_names
        self.wrench_b = torch.zeros(num_envs, len(body_names), 6, device=device)
        """(N, B, 6) force [N], then torque [N m] about the body's centre of mass, in the body's frame."""
