"""Search for places in a tile where the ground is flat, for goals and spawn points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab_core.config import Settings
from lab_core.errors import ConfigError
from lab_core.terrain.sub_terrain import TileSpec
from lab_core.terrain.surfaces import Surface

_CANDIDATES_PER_ROUND = 256
_MAX_ROUNDS = 40


@dataclass(kw_only=True)
class FlatPatchCfg(Settings):
    """Round flat places, found in every tile by trying random positions."""

    num_patches: int = 1
    """Patches per tile; they may overlap."""
    radius: float = 0.5
    """Radius of a patch [m]."""
    max_height_difference: float = 0.05
    """Greatest difference of height within a patch [m]."""
    max_distance: float = float("inf")
    """Greatest distance of a patch's centre from the middle of its tile in x and in y [m]."""


def find_flat_patches(
    cfg: FlatPatchCfg, surface: Surface, tile: TileSpec, rng: np.random.Generator, where: str
) -> NDArray[np.float32]:
    """Flat patches of one tile.

    Args:
        where: The tile, for the error message.

    Returns:
        ``(num_patches, 3)`` centres [m] relative to the middle of the tile, z on the ground.

    Raises:
        ConfigError: Too few were found, or a patch does not fit into a tile.
    """
    reach = min(tile.size / 2 - cfg.radius, cfg.max_distance)
    if reach < 0:
        raise ConfigError(f"Flat patches of radius {cfg.radius} do not fit into tiles of {tile.size} m.")
    disc = _disc(cfg.radius, tile.horizontal_scale)
    found = np.empty((0, 2))
    for _ in range(_MAX_ROUNDS):
        centres = rng.uniform(-reach, reach, size=(_CANDIDATES_PER_ROUND, 2))
        heights = surface.height_at(centres[:, None] + disc)
        flat = np.ptp(heights, axis=1) <= cfg.max_height_difference
        found = np.concatenate([found, centres[flat]])[: cfg.num_patches]
        if len(found) == cfg.num_patches:
            # what is stored and its height belong to the same position
            found = found.astype(np.float32)
            return np.column_stack([found, surface.height_at(found)]).astype(np.float32)
    raise ConfigError(
        f"{where}: found {len(found)} of {cfg.num_patches} flat patches (radius {cfg.radius} m,"
        f" max_height_difference {cfg.max_height_difference} m) in {_MAX_ROUNDS * _CANDIDATES_PER_ROUND} places."
    )


def _disc(radius: float, spacing: float) -> NDArray[np.float64]:
    """Points (P, 2) that fill a disc, its edge included, no further apart than ``spacing``."""
    rings = [np.zeros((1, 2))]
    for r in np.linspace(0, radius, int(np.ceil(radius / spacing)) + 1)[1:]:
        angle = np.linspace(0, 2 * np.pi, int(np.ceil(2 * np.pi * r / spacing)), endpoint=False)
        rings.append(r * np.column_stack([np.cos(angle), np.sin(angle)]))
    return np.concatenate(rings)
