"""Base of the sub-terrains, each of which fills one square tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab_core.config import Settings
from lab_core.terrain.surfaces import Surface


@dataclass(frozen=True, kw_only=True)
class TileSpec:
    """What all tiles of a terrain share."""

    size: float
    """Side of the square [m]."""
    horizontal_scale: float
    """Distance between the nodes of height fields [m]."""
    vertical_scale: float
    """Heights of height fields are multiples of this [m]."""


@dataclass(kw_only=True)
class SubTerrainCfg(Settings):
    """Base of all sub-terrains. A range is ``(value at difficulty 0, value at difficulty 1)``, linear between."""

    proportion: float = 1.0
    """Share of the terrain, relative to the other sub-terrains."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> Surface:
        """The ground of one tile, centred at 0, with height 0 along its rim, where tiles meet.

        Args:
            difficulty: 0 (easiest) to 1.
            tile: Size and resolution.
            rng: The only source of chance.
        """
        raise NotImplementedError

    def spawn_height(self, surface: Surface) -> float:
        """Height [m] on which a robot is placed around the centre of ``surface``."""
        return float(surface.height_at((0.0, 0.0)))


def at_difficulty(value_range: tuple[float, float], difficulty: float) -> float:
    """``low + difficulty * (high - low)``."""
    low, high = value_range
    return low + difficulty * (high - low)
