"""Sub-terrains of flat pieces and vertical walls: stairs, boxes, obstacles, stones, rails, pits, gaps, plane."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lab_core.errors import ConfigError
from lab_core.terrain.sub_terrain import SubTerrainCfg, TileSpec, at_difficulty
from lab_core.terrain.surfaces import StepField


@dataclass(kw_only=True)
class PlaneTerrainCfg(SubTerrainCfg):
    """Flat ground."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        return StepField.painted(tile.size)


@dataclass(kw_only=True)
class PyramidStairsTerrainCfg(SubTerrainCfg):
    """Stairs from all four sides up to a platform in the middle, or down to it."""

    step_height_range: tuple[float, float] = (0.05, 0.23)
    """Height of a riser [m]."""
    step_width: float = 0.3
    """Depth of a tread [m]."""
    platform_width: float = 3.0
    """Steps go on as long as the square that is left is at least this wide [m]."""
    border_width: float = 1.0
    """Flat border inside the tile [m]."""
    inverted: bool = False
    """Down to the middle instead of up."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        _require_positive(self, step_width=self.step_width)
        width = tile.size - 2 * self.border_width
        rings = int((width - self.platform_width) / (2 * self.step_width) + 1e-6) + 1
        if width < self.platform_width or width <= 2 * self.step_width * rings:
            raise ConfigError(
                f"PyramidStairsTerrainCfg: platform_width {self.platform_width} and border_width {self.border_width}"
                f" leave no room for steps of {self.step_width} m in a tile of {tile.size} m."
            )
        riser = at_difficulty(self.step_height_range, difficulty) * (-1 if self.inverted else 1)
        return StepField.painted(
            tile.size, _squares((width - 2 * self.step_width * ring, (ring + 1) * riser) for ring in range(rings + 1))
        )


@dataclass(kw_only=True)
class RandomGridTerrainCfg(SubTerrainCfg):
    """Square boxes side by side with random heights, and a platform as high as the highest possible one."""

    grid_width: float = 0.45
    """Side of a box [m]."""
    grid_height_range: tuple[float, float] = (0.05, 0.2)
    """Greatest height above and below 0 [m]; heights are uniform in between."""
    platform_width: float = 2.0
    """Side of the flat square in the middle [m]."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        _require_positive(self, grid_width=self.grid_width, platform_width=self.platform_width)
        count = int(tile.size / self.grid_width + 1e-6)
        if tile.size - count * self.grid_width < 1e-3:
            count -= 2  # the rim of a tile is flat
        greatest = at_difficulty(self.grid_height_range, difficulty)
        heights = rng.uniform(-greatest, greatest, size=(count, count))
        boxes = _grid(self.grid_width, self.grid_width, heights)
        return StepField.painted(tile.size, [*boxes, *_squares([(self.platform_width, greatest)])])


@dataclass(kw_only=True)
class DiscreteObstaclesTerrainCfg(SubTerrainCfg):
    """Scattered blocks and holes of random size on flat ground."""

    obstacle_width_range: tuple[float, float] = (0.25, 0.75)
    """Least and greatest side [m], whatever the difficulty."""
    obstacle_height_range: tuple[float, float] = (0.05, 0.2)
    """Greatest height [m]; each obstacle has this or half of it, up or down."""
    num_obstacles: int = 40
    platform_width: float = 2.0
    """Side of the flat square in the middle [m]."""
    border_width: float = 0.25
    """Flat border inside the tile [m]."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        greatest = at_difficulty(self.obstacle_height_range, difficulty)
        widths = rng.uniform(*self.obstacle_width_range, size=(self.num_obstacles, 2))
        widths = np.maximum(_snap(widths, tile), tile.horizontal_scale)
        limit = tile.size / 2 - self.border_width
        room = 2 * limit - widths
        if (room < 0).any():
            raise ConfigError(
                f"DiscreteObstaclesTerrainCfg: obstacles up to {widths.max():.2f} m do not fit into a tile of"
                f" {tile.size} m with border_width {self.border_width}."
            )
        corners = _snap(rng.uniform(size=room.shape) * room, tile) - limit
        heights = rng.choice([-1.0, -0.5, 0.5, 1.0], size=self.num_obstacles) * greatest
        obstacles = [
            (x, x + width_x, y, y + width_y, height)
            for (x, y), (width_x, width_y), height in zip(corners, widths, heights, strict=True)
        ]
        return StepField.painted(tile.size, [*obstacles, *_squares([(self.platform_width, 0.0)])])


@dataclass(kw_only=True)
class SteppingStonesTerrainCfg(SubTerrainCfg):
    """Square stones in a hole, with a platform in the middle."""

    stone_width_range: tuple[float, float] = (1.0, 0.25)
    """Side of a stone [m]; smaller ones are harder."""
    stone_distance_range: tuple[float, float] = (0.05, 0.25)
    """Gap between neighbouring stones [m]."""
    stone_height_max: float = 0.05
    """Stones are uniformly up to this much higher or lower than the rim [m]."""
    hole_depth: float = 1.0
    """Depth between the stones [m]."""
    platform_width: float = 2.0
    """Side of the flat square in the middle [m]."""
    border_width: float = 0.5
    """Flat border inside the tile [m]."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        width = at_difficulty(self.stone_width_range, difficulty)
        pitch = width + at_difficulty(self.stone_distance_range, difficulty)
        _require_positive(self, stone_width=width, stone_pitch=pitch)
        hole = tile.size / 2 - self.border_width
        outer = tile.size / 2
        count = int(2 * hole / pitch) + 2  # those at the border are cut, so that the gap before it is no wider
        heights = rng.uniform(-self.stone_height_max, self.stone_height_max, size=(count, count))
        return StepField.painted(
            tile.size,
            [
                (-outer, outer, -outer, outer, -self.hole_depth),
                *_grid(pitch, width, heights),
                (-outer, outer, -outer, -hole, 0.0),
                (-outer, outer, hole, outer, 0.0),
                (-outer, -hole, -outer, outer, 0.0),
                (hole, outer, -outer, outer, 0.0),
                *_squares([(self.platform_width, 0.0)]),
            ],
        )


@dataclass(kw_only=True)
class RailsTerrainCfg(SubTerrainCfg):
    """Two square rails around the middle, to be stepped over."""

    rail_height_range: tuple[float, float] = (0.05, 0.25)
    """Height of the rails [m]."""
    rail_thickness_range: tuple[float, float] = (0.3, 0.1)
    """Thickness of the rails [m]; thinner ones are harder."""
    platform_width: float = 2.0
    """Side of the free square in the middle [m]."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        height = at_difficulty(self.rail_height_range, difficulty)
        thickness = at_difficulty(self.rail_thickness_range, difficulty)
        _require_positive(self, rail_thickness=thickness, platform_width=self.platform_width)
        outer = (self.platform_width + tile.size) / 2
        return StepField.painted(
            tile.size,
            _squares(
                (
                    (outer + 2 * thickness, height),
                    (outer, 0.0),
                    (self.platform_width + 2 * thickness, height),
                    (self.platform_width, 0.0),
                )
            ),
        )


@dataclass(kw_only=True)
class PitTerrainCfg(SubTerrainCfg):
    """A square pit out of which the robot must climb."""

    pit_depth_range: tuple[float, float] = (0.05, 0.4)
    """Depth [m]."""
    platform_width: float = 3.0
    """Side of the pit [m]."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        _require_positive(self, platform_width=self.platform_width)
        return StepField.painted(
            tile.size, _squares([(self.platform_width, -at_difficulty(self.pit_depth_range, difficulty))])
        )


@dataclass(kw_only=True)
class GapTerrainCfg(SubTerrainCfg):
    """A trench around the platform in the middle."""

    gap_width_range: tuple[float, float] = (0.1, 0.8)
    """Width of the trench [m]."""
    gap_depth: float = 1.0
    """Depth of the trench [m]."""
    platform_width: float = 2.0
    """Side of the square inside the trench [m]."""

    def surface(self, difficulty: float, tile: TileSpec, rng: np.random.Generator) -> StepField:
        _require_positive(self, platform_width=self.platform_width)
        width = self.platform_width + 2 * at_difficulty(self.gap_width_range, difficulty)
        return StepField.painted(tile.size, _squares([(width, -self.gap_depth), (self.platform_width, 0.0)]))


_Rectangle = tuple[float, float, float, float, float]


def _squares(sides_and_heights: Iterable[tuple[float, float]]) -> list[_Rectangle]:
    """Squares around the centre as rectangles to paint."""
    return [(-side / 2, side / 2, -side / 2, side / 2, height) for side, height in sides_and_heights]


def _grid(pitch: float, width: float, heights: np.ndarray) -> list[_Rectangle]:
    """Squares of side ``width``, one per entry of ``heights`` (n, n), ``pitch`` apart, centred."""
    centres = (np.arange(len(heights)) - (len(heights) - 1) / 2) * pitch
    half = width / 2
    return [
        (x - half, x + half, y - half, y + half, heights[i, j])
        for i, x in enumerate(centres)
        for j, y in enumerate(centres)
    ]


def _snap(lengths: np.ndarray, tile: TileSpec) -> np.ndarray:
    """Lengths as multiples of the horizontal scale, rounded down, which keeps the number of edges small."""
    return np.floor(lengths / tile.horizontal_scale + 1e-6) * tile.horizontal_scale


def _require_positive(cfg: SubTerrainCfg, **values: float) -> None:
    for name, value in values.items():
        if value <= 0:
            raise ConfigError(f"{type(cfg).__name__}: {name} must be positive, got {value}.")
