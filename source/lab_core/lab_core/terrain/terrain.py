"""Generated terrain: a grid of tiles with a flat border, all around the world's origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lab_core.errors import ConfigError
from lab_core.terrain.surfaces import HeightField, StepField, Surface, TriangleMesh, concatenate


@dataclass(frozen=True, kw_only=True, eq=False)
class Terrain:
    """Tiles in rows along +x (levels of difficulty) and columns along +y (types).

    Their middle is the world's origin. Tiles and border meet at height 0.
    """

    tiles: list[list[Surface]]
    """The ground of each tile, around the tile's middle."""
    tile_size: float
    """Side of a tile [m]."""
    border_width: float
    """Width of the flat border around all tiles [m]."""
    horizontal_scale: float
    """Distance between the nodes of height fields [m]."""
    origins: NDArray[np.float32]
    """(rows, cols, 3) where robots are placed in each tile, world frame [m]."""
    difficulties: NDArray[np.float64]
    """(rows, cols) difficulty of each tile."""
    types: NDArray[np.int64]
    """(rows, cols) index of each tile's sub-terrain in ``type_names``."""
    type_names: tuple[str, ...]
    """Names of the sub-terrains."""
    flat_patches: dict[str, NDArray[np.float32]]
    """By name: (rows, cols, num_patches, 3) centres of flat places, world frame [m]."""

    @property
    def num_rows(self) -> int:
        """Number of levels."""
        return self.origins.shape[0]

    @property
    def num_cols(self) -> int:
        """Number of columns."""
        return self.origins.shape[1]

    @property
    def size(self) -> tuple[float, float]:
        """Extent in x and y with the border [m]. Terrain covers ``|x| <= size[0] / 2``, ``|y| <= size[1] / 2``."""
        return (
            self.num_rows * self.tile_size + 2 * self.border_width,
            self.num_cols * self.tile_size + 2 * self.border_width,
        )

    def height_at(self, xy: ArrayLike) -> NDArray[np.float64]:
        """Height of the ground, exactly that of :meth:`to_mesh`.

        Args:
            xy: ``(..., 2)`` positions in the world frame [m].

        Returns:
            ``(...)`` heights [m]; the upper edge on a vertical wall, NaN outside of the terrain.
        """
        xy = np.asarray(xy, dtype=np.float64)
        position = xy / self.tile_size + np.array(self.origins.shape[:2]) / 2
        heights = np.where((np.abs(xy) <= np.array(self.size) / 2).all(axis=-1), 0.0, np.nan)
        row, col = np.moveaxis(np.floor(position).astype(np.int64), -1, 0)
        on_tile = (row >= 0) & (row < self.num_rows) & (col >= 0) & (col < self.num_cols)
        for index in np.unique((row * self.num_cols + col)[on_tile]):
            r, c = divmod(int(index), self.num_cols)
            here = on_tile & (row == r) & (col == c)
            heights[here] = self.tiles[r][c].height_at(xy[here] - self.tile_centre(r, c))
        return heights

    def tile_centre(self, row: int, col: int) -> tuple[float, float]:
        """Middle ``(x, y)`` of a tile in the world frame [m]."""
        return (
            (row + 0.5 - self.num_rows / 2) * self.tile_size,
            (col + 0.5 - self.num_cols / 2) * self.tile_size,
        )

    def to_mesh(self) -> TriangleMesh:
        """Everything as one open mesh with walls that are truly vertical, centred at 0.

        It suits ray casts and engines that collide with single triangles. Engines that replace a mesh by its convex
        hull need :meth:`to_heightfield`.
        """
        parts = [
            (tile.to_mesh(), *self.tile_centre(row, col))
            for row, tiles in enumerate(self.tiles)
            for col, tile in enumerate(tiles)
        ]
        if self.border_width > 0:
            parts += self._border_parts()
        return concatenate(parts)

    def to_heightfield(self, horizontal_scale: float | None = None) -> HeightField:
        """Everything sampled on one regular grid, centred at 0.

        A wall becomes a slope one node wide at its foot, and what is thinner than the spacing may get lost.

        Args:
            horizontal_scale: Distance between nodes [m]; default: that of the terrain.

        Raises:
            ConfigError: Tile size or border width is no multiple of the distance.
        """
        spacing = self.horizontal_scale if horizontal_scale is None else horizontal_scale
        cells, border = (_cells(name, getattr(self, name), spacing) for name in ("tile_size", "border_width"))
        heights = np.zeros([n * cells + 2 * border + 1 for n in self.origins.shape[:2]], dtype=np.float32)
        axis = np.linspace(-self.tile_size / 2, self.tile_size / 2, cells + 1)
        nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
        for row, tiles in enumerate(self.tiles):
            for col, tile in enumerate(tiles):
                x, y = border + row * cells, border + col * cells
                heights[x : x + cells + 1, y : y + cells + 1] = tile.height_at(nodes)
        return HeightField(heights, self.tile_size / cells)

    def _border_parts(self) -> list[tuple[TriangleMesh, float, float]]:
        """Flat strips around the tiles, cut where tiles meet so that corners touch corners."""
        x, y = ((np.arange(n + 1) - n / 2) * self.tile_size for n in self.origins.shape[:2])
        width = self.border_width
        below_x, above_x = np.array([x[0] - width, x[0]]), np.array([x[-1], x[-1] + width])
        below_y, above_y = np.array([y[0] - width, y[0]]), np.array([y[-1], y[-1] + width])
        all_x = np.concatenate([below_x[:1], x, above_x[1:]])
        strips = [(all_x, below_y), (all_x, above_y), (below_x, y), (above_x, y)]
        flat = [StepField(xs, ys, np.zeros((len(xs) - 1, len(ys) - 1))) for xs, ys in strips]
        return [(strip.to_mesh(), 0.0, 0.0) for strip in flat]


def _cells(name: str, length: float, spacing: float) -> int:
    cells = round(length / spacing)
    if abs(cells * spacing - length) > 1e-6:
        raise ConfigError(f"{name} {length} must be a multiple of horizontal_scale {spacing} for a height field.")
    return cells
