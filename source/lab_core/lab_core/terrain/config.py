"""Settings of generated terrain."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab_core.config import Settings
from lab_core.terrain.flat_patches import FlatPatchCfg
from lab_core.terrain.sub_terrain import SubTerrainCfg


@dataclass(kw_only=True)
class TerrainGeneratorCfg(Settings):
    """A grid of square tiles, each with one sub-terrain at one difficulty."""

    sub_terrains: dict[str, SubTerrainCfg] = field(default_factory=dict)
    """By name; their order decides which columns they get."""
    curriculum: bool = True
    """True: the difficulty grows with the row and each column has one type. False: both are random in every tile."""
    size: float = 8.0
    """Side of a tile [m]."""
    num_rows: int = 10
    """Levels of difficulty, along +x."""
    num_cols: int = 20
    """Columns, along +y."""
    border_width: float = 20.0
    """Width of the flat ground at height 0 around all tiles [m]."""
    difficulty_range: tuple[float, float] = (0.0, 1.0)
    """Difficulty at the first and at the last level; between 0 and 1."""
    horizontal_scale: float = 0.1
    """Distance between the nodes of height fields [m]."""
    vertical_scale: float = 0.005
    """Heights of height fields are multiples of this [m]."""
    friction: float = 1.0
    """Sliding friction coefficient of the ground."""
    max_init_level: int | None = 5
    """In a curriculum, environments start at random levels up to this one. None: at any level."""
    flat_patches: dict[str, FlatPatchCfg] = field(default_factory=dict)
    """Flat places to find in every tile, by name."""
    seed: int | None = None
    """Seed of the terrain alone. None: the seed of the run."""
    use_cache: bool = False
    """Keep the terrain on disk and load it when configuration, seed and code are the same."""
