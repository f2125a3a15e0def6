"""Sub-terrains that are height fields: random rough ground, pyramid slopes, waves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab_core.errors import ConfigError
from lab_core.terrain.sub_terrain import SubTerrainCfg, TileSpec, at_difficulty
from lab_core.terrain.surfaces import HeightField, Surface

_SPAWN_HALF_WIDTH = 1.0
"""On uneven ground a robot is placed above everything this close to the centre in x and y [m]."""


@dataclass(kw_only=True)
class RandomRoughTerrainCfg(SubTerrainCfg):
    """Every node has a random height; the difficulty has no influence."""

    noise_range: tuple[float, float] = (0.02, 0.10)
    """Lowest and highest height [m]."""
    noise_step: float = 0.02
    """Distance between the possible heights [m]."""
    border_width: float = 0.25
    """Flat border inside the tile [m]."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> HeightField:
        low, high, step = (round(value / tile.vertical_scale) for value in (*self.noise_range, self.noise_step))
        if step < 1 or high < low:
            raise ConfigError(
                f"RandomRoughTerrainCfg: noise_range {self.noise_range} must increase and noise_step"
                f" {self.noise_step} be at least vertical_scale {tile.vertical_scale}."
            )
        inner = _inner_nodes(self, tile, self.border_width)
        return _bordered(tile, rng.choice(np.arange(low, high + 1, step), size=(inner, inner)))

    def spawn_height(self, surface: Surface) -> float:
        return surface.highest_within(_SPAWN_HALF_WIDTH)


@dataclass(kw_only=True)
class PyramidSlopeTerrainCfg(SubTerrainCfg):
    """A pyramid cut off at a platform, or such a pit. Its height is the product of a ramp in x and one in y."""

    slope_range: tuple[float, float] = (0.0, 0.4)
    """Rise over run."""
    platform_width: float = 2.0
    """Side of the flat square in the middle [m]."""
    border_width: float = 0.25
    """Flat border inside the tile [m]."""
    inverted: bool = False
    """Down to the middle instead of up."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> HeightField:
        inner = _inner_nodes(self, tile, self.border_width)
        centre = (inner - 1) / 2
        platform_corner = centre - int(self.platform_width / tile.horizontal_scale / 2)
        if platform_corner < 0:
            raise ConfigError(f"PyramidSlopeTerrainCfg: platform_width {self.platform_width} exceeds the tile.")
        run = inner * tile.horizontal_scale / 2
        peak = int(at_difficulty(self.slope_range, difficulty) * run / tile.vertical_scale + 1e-6)
        ramp = 1 - np.abs(np.arange(inner) - centre) / centre
        heights = peak * np.minimum(np.outer(ramp, ramp), (platform_corner / centre) ** 2)
        return _bordered(tile, -heights if self.inverted else heights)


@dataclass(kw_only=True)
class WaveTerrainCfg(SubTerrainCfg):
    """Hills and hollows: the product of a sine in x and one in y, zero along the rim."""

    amplitude_range: tuple[float, float] = (0.05, 0.2)
    """Height of the hills above and depth of the hollows below 0 [m]."""
    num_waves: int = 2
    """Full waves along each side of the tile."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> HeightField:
        if self.num_waves < 1:
            raise ConfigError(f"WaveTerrainCfg: num_waves must be at least 1, got {self.num_waves}.")
        wave = np.sin(np.linspace(-np.pi, np.pi, _nodes(tile)) * self.num_waves)
        amplitude = at_difficulty(self.amplitude_range, difficulty)
        return _height_field(tile, amplitude / tile.vertical_scale * np.outer(wave, wave))

    def spawn_height(self, surface: Surface) -> float:
        return surface.highest_within(_SPAWN_HALF_WIDTH)


def _nodes(tile: TileSpec) -> int:
    cells = round(tile.size / tile.horizontal_scale)
    if cells < 1 or abs(cells * tile.horizontal_scale - tile.size) > 1e-6:
        raise ConfigError(
            f"size {tile.size} must be a multiple of horizontal_scale {tile.horizontal_scale} for height fields."
        )
    return cells + 1


def _rim_nodes(tile: TileSpec, border_width: float) -> int:
    """At least one, so that the rim of the tile is flat."""
    return int(border_width / tile.horizontal_scale + 1e-6) + 1


def _inner_nodes(cfg: SubTerrainCfg, tile: TileSpec, border_width: float) -> int:
    inner = _nodes(tile) - 2 * _rim_nodes(tile, border_width)
    if inner < 3:
        raise ConfigError(
            f"{type(cfg).__name__}: border_width {border_width} leaves no room in a tile of {tile.size} m."
        )
    return inner


def _bordered(tile: TileSpec, inner: NDArray) -> HeightField:
    """Heights in units of ``vertical_scale`` with a flat border around them."""
    return _height_field(tile, np.pad(inner, (_nodes(tile) - len(inner)) // 2))


def _height_field(tile: TileSpec, units: NDArray) -> HeightField:
    return HeightField(np.rint(units) * tile.vertical_scale, tile.size / (len(units) - 1))
