"""Rays against the terrain, for height scans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from lab_core.config import MISSING, Settings
from lab_core.markers import ORANGE, Markers, SphereMarkers
from lab_core.sensors.sensor import Carrier, SensorCfg, SensorData


@dataclass(kw_only=True)
class GridPatternCfg(Settings):
    """Parallel rays from a horizontal grid, x fastest."""

    size: tuple[float, float] = (1.6, 1.0)
    """Length along x and y [m]."""
    resolution: float = 0.1
    """Distance between rays [m]."""
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    """Of all rays, in the aligned frame of the sensor; of any length."""

    def rays(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns starts and unit directions, (R, 3) each, in the sensor's frame."""
        # The small number keeps a size that is a whole multiple of the resolution from losing its last row.
        counts = [math.floor(length / self.resolution + 1e-6) + 1 for length in self.size]
        x, y = (
            torch.arange(count) * self.resolution - length / 2 for count, length in zip(counts, self.size, strict=True)
        )
        grid_y, grid_x = torch.meshgrid(y, x, indexing="ij")
        starts = torch.stack([grid_x.flatten(), grid_y.flatten(), torch.zeros(grid_x.numel())], dim=1)
        direction = torch.tensor(self.direction) / torch.tensor(self.direction).norm()
        return starts, direction.repeat(len(starts), 1)


@dataclass(kw_only=True)
class RayCasterCfg(SensorCfg):
    """Rays from a body against the static terrain; cast at the end of every step and after every reset."""

    body_name: str = MISSING
    pattern: GridPatternCfg = field(default_factory=GridPatternCfg)
    alignment: Literal["base", "yaw", "world"] = "yaw"
    """What turns the rays: the body's full orientation, only its heading, or nothing."""
    offset: tuple[float, float, float] = (0.0, 0.0, 20.0)
    """Start of the rays in the aligned frame of the body [m]."""
    max_distance: float = 1e6
    """Farther hits count as misses [m]."""


class RayCasterData(SensorData):
    """Measurements of N environments and R rays, in the world frame [m]."""

    def __init__(self, cfg: RayCasterCfg, num_envs: int, device: torch.device) -> None:
        starts, _ = cfg.pattern.rays()
        self.pos_w = torch.zeros(num_envs, 3, device=device)
        """(N, 3) position of the body that carries the sensor."""
        self.quat_w = torch.zeros(num_envs, 4, device=device)
        """(N, 4) its orientation, xyzw."""
        self.ray_hits_w = torch.zeros(num_envs, len(starts), 3, device=device)
        """(N, R, 3) where the rays hit; infinite where one misses."""

    def markers(self, carrier: Carrier) -> Sequence[Markers]:
        """Returns the hits as points."""
        return (SphereMarkers(center_w=self.ray_hits_w, color=ORANGE, radius=0.02),)
