"""Inertial measurement unit."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from lab_core.config import MISSING
from lab_core.sensors.sensor import SensorCfg, SensorData


@dataclass(kw_only=True)
class ImuCfg(SensorCfg):
    """A gyroscope and an accelerometer on a body; read in the last substep of a step."""

    body_name: str = MISSING
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Position in the body's frame [m]."""
    quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    """Orientation in the body's frame, xyzw."""


class ImuData(SensorData):
    """Measurements of N environments in the sensor's frame.

    After a reset the gyroscope shows the new state; the accelerometer shows 0 until the next step.
    """

    def __init__(self, cfg: ImuCfg, num_envs: int, device: torch.device) -> None:
        self.ang_vel_b = torch.zeros(num_envs, 3, device=device)
        """(N, 3) [rad/s]."""
        self.lin_acc_b = torch.zeros(num_envs, 3, device=device)
        """(N, 3) specific force: at rest it points up with 9.81 [m/s^2]; 0 in free fall."""
