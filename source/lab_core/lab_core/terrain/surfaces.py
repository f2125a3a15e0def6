"""Surfaces ``z = f(x, y)`` of terrain: sloped (:class:`HeightField`) or made of vertical steps (:class:`StepField`).

Each has its centre at ``x = y = 0``, an exact height everywhere and an exact triangle mesh. Lengths are in metres.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_RESOLUTION = 1e-6
"""Coordinates closer than this are the same [m]."""


@dataclass(frozen=True)
class TriangleMesh:
    """Triangles, counter-clockwise as seen from outside the ground."""

    vertices: NDArray[np.float32]
    """(V, 3) positions [m]."""
    triangles: NDArray[np.int32]
    """(T, 3) vertex indices."""


class Surface(ABC):
    """Ground whose height is one function of the position."""

    heights: NDArray[np.float32]
    """(X, Y) heights of nodes or cells [m], x first."""

    @abstractmethod
    def height_at(self, xy: ArrayLike) -> NDArray[np.float64]:
        """Height [m] at positions ``(..., 2)``, shape ``(...)``; positions outside count as the nearest inside.

        On a vertical wall it is the upper edge.
        """

    @abstractmethod
    def highest_within(self, half_width: float) -> float:
        """Greatest height [m] in the square ``|x|, |y| < half_width`` around the centre."""

    @abstractmethod
    def to_mesh(self) -> TriangleMesh:
        """The surface as triangles, without degenerate ones."""

    def rim_heights(self) -> NDArray[np.float32]:
        """Heights [m] along the four outer edges, flat."""
        z = self.heights
        return np.concatenate([z[0], z[-1], z[:, 0], z[:, -1]])


class HeightField(Surface):
    """Heights on the nodes of a regular grid.

    Each grid cell is two flat triangles that share the diagonal from node ``(i, j)`` to node ``(i + 1, j + 1)``. An
    engine whose rows run along y takes ``heights.T``.
    """

    def __init__(self, heights: ArrayLike, spacing: float) -> None:
        """
        Args:
            heights: ``(X, Y)`` heights [m], at least 2 by 2; node ``(i, j)`` lies at
                ``((i - (X - 1) / 2) * spacing, (j - (Y - 1) / 2) * spacing)``.
            spacing: Distance between neighbouring nodes [m].

        Raises:
            ValueError: The array has another form.
        """
        self.heights = np.array(heights, dtype=np.float32)
        if self.heights.ndim != 2 or min(self.heights.shape) < 2:
            raise ValueError(f"heights must have shape (X, Y) with X, Y >= 2, got {self.heights.shape}.")
        self.spacing = spacing

    @property
    def size(self) -> tuple[float, float]:
        """Extent in x and y [m]."""
        nodes_x, nodes_y = self.heights.shape
        return (nodes_x - 1) * self.spacing, (nodes_y - 1) * self.spacing

    def height_at(self, xy: ArrayLike) -> NDArray[np.float64]:
        last = np.array(self.heights.shape) - 1
        position = np.clip(np.asarray(xy, dtype=np.float64) / self.spacing + last / 2, 0, last)
        cell = np.minimum(position.astype(np.int64), last - 1)
        u, v = np.moveaxis(position - cell, -1, 0)
        i, j = np.moveaxis(cell, -1, 0)
        z = self.heights
        start, end = z[i, j].astype(np.float64), z[i + 1, j + 1]
        # along one axis to the third corner of the triangle, then along the other
        corner = np.where(u >= v, z[i + 1, j], z[i, j + 1])
        return start + np.maximum(u, v) * (corner - start) + np.minimum(u, v) * (end - corner)

    def highest_within(self, half_width: float) -> float:
        # one node further out if the edge of the square lies between nodes
        reach = half_width + self.spacing - _RESOLUTION
        x, y = (np.abs(np.arange(n) - (n - 1) / 2) * self.spacing < reach for n in self.heights.shape)
        return float(self.heights[np.ix_(x, y)].max())

    def to_mesh(self) -> TriangleMesh:
        nodes_x, nodes_y = self.heights.shape
        x, y = ((np.arange(n) - (n - 1) / 2) * self.spacing for n in (nodes_x, nodes_y))
        vertices = np.stack([*np.meshgrid(x, y, indexing="ij"), self.heights], axis=-1).reshape(-1, 3)
        node = np.arange(nodes_x * nodes_y, dtype=np.int32).reshape(nodes_x, nodes_y)
        a, b, c, d = (corner.ravel() for corner in (node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:]))
        return TriangleMesh(vertices.astype(np.float32), _two_triangles(a, b, c, d))


class StepField(Surface):
    """Constant heights on the cells of a rectilinear grid, with vertical walls between them."""

    def __init__(self, x_edges: ArrayLike, y_edges: ArrayLike, heights: ArrayLike) -> None:
        """
        Args:
            x_edges: ``(X + 1,)`` increasing cell borders [m].
            y_edges: ``(Y + 1,)`` increasing cell borders [m].
            heights: ``(X, Y)`` heights [m].

        Raises:
            ValueError: The shapes do not fit, or edges do not increase.
        """
        self.x_edges: NDArray[np.float64] = np.array(x_edges, dtype=np.float64)
        self.y_edges: NDArray[np.float64] = np.array(y_edges, dtype=np.float64)
        self.heights = np.array(heights, dtype=np.float32)
        expected = (len(self.x_edges) - 1, len(self.y_edges) - 1)
        if self.heights.shape != expected:
            raise ValueError(f"heights must have shape {expected}, one per cell, got {self.heights.shape}.")
        if not (np.diff(self.x_edges) > 0).all() or not (np.diff(self.y_edges) > 0).all():
            raise ValueError("The edges of a StepField must increase.")

    @classmethod
    def painted(cls, size: float, rectangles: Sequence[tuple[float, float, float, float, float]] = ()) -> StepField:
        """A flat square at height 0 on which rectangles are painted; a later one covers an earlier one.

        Args:
            size: Side of the square [m].
            rectangles: ``(x_min, x_max, y_min, y_max, height)`` [m]; what lies outside the square is cut off, and a
                rectangle without area is left out.
        """
        table = np.array(rectangles, dtype=np.float64).reshape(-1, 5)
        bounds = np.round(np.clip(table[:, :4], -size / 2, size / 2), 6)
        outer = np.round([-size / 2, size / 2], 6)
        x_edges = np.unique(np.concatenate([outer, bounds[:, 0], bounds[:, 1]]))
        y_edges = np.unique(np.concatenate([outer, bounds[:, 2], bounds[:, 3]]))
        heights = np.zeros((len(x_edges) - 1, len(y_edges) - 1), dtype=np.float32)
        x_cells = np.searchsorted(x_edges, bounds[:, :2])
        y_cells = np.searchsorted(y_edges, bounds[:, 2:])
        for (x_min, x_max), (y_min, y_max), height in zip(x_cells, y_cells, table[:, 4], strict=True):
            heights[x_min:x_max, y_min:y_max] = height
        return cls(x_edges, y_edges, heights)

    def height_at(self, xy: ArrayLike) -> NDArray[np.float64]:
        x, y = np.moveaxis(np.asarray(xy, dtype=np.float64), -1, 0)
        cells_x = [_cell(self.x_edges, x + shift) for shift in (-_RESOLUTION, _RESOLUTION)]
        cells_y = [_cell(self.y_edges, y + shift) for shift in (-_RESOLUTION, _RESOLUTION)]
        return np.max([self.heights[i, j] for i in cells_x for j in cells_y], axis=0).astype(np.float64)

    def highest_within(self, half_width: float) -> float:
        inside = half_width - _RESOLUTION
        x, y = (
            slice(int(_cell(edges, np.array(-inside))), int(_cell(edges, np.array(inside))) + 1)
            for edges in (self.x_edges, self.y_edges)
        )
        return float(self.heights[x, y].max())

    def to_mesh(self) -> TriangleMesh:
        z = self.heights
        cells_x, cells_y = z.shape
        # each cell has four vertices of its own, (X, 2, Y, 2); walls join the vertices of neighbouring cells
        x = np.broadcast_to(
            np.stack([self.x_edges[:-1], self.x_edges[1:]], 1)[:, :, None, None], (cells_x, 2, cells_y, 2)
        )
        y = np.broadcast_to(np.stack([self.y_edges[:-1], self.y_edges[1:]], 1), x.shape)
        vertices = np.stack([x, y, np.broadcast_to(z[:, None, :, None], x.shape)], axis=-1).reshape(-1, 3)
        v = np.arange(len(vertices), dtype=np.int32).reshape(x.shape)

        quads = [(v[:, 0, :, 0], v[:, 1, :, 0], v[:, 1, :, 1], v[:, 0, :, 1])]
        walls = z[:-1] != z[1:]
        quads.append((v[:-1, 1, :, 0][walls], v[1:, 0, :, 0][walls], v[1:, 0, :, 1][walls], v[:-1, 1, :, 1][walls]))
        walls = z[:, :-1] != z[:, 1:]
        low, high = v[:, :, :-1, 1], v[:, :, 1:, 0]
        quads.append((low[:, 0][walls], low[:, 1][walls], high[:, 1][walls], high[:, 0][walls]))
        triangles = [_two_triangles(*(corner.ravel() for corner in quad)) for quad in quads]
        return TriangleMesh(vertices.astype(np.float32), np.concatenate(triangles))


def concatenate(parts: Sequence[tuple[TriangleMesh, float, float]]) -> TriangleMesh:
    """One mesh of several, each moved by an offset ``(x, y)`` [m]."""
    vertices, triangles, count = [], [], 0
    for mesh, x, y in parts:
        moved = mesh.vertices.astype(np.float64)
        moved[:, :2] = np.round(moved[:, :2] + (x, y), 6)  # so that neighbours agree on their common edge
        vertices.append(moved.astype(np.float32))
        triangles.append(mesh.triangles + np.int32(count))
        count += len(moved)
    return TriangleMesh(np.concatenate(vertices), np.concatenate(triangles))


def _cell(edges: NDArray[np.float64], position: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.clip(np.searchsorted(edges, position, side="right") - 1, 0, len(edges) - 2)


def _two_triangles(
    a: NDArray[np.int32], b: NDArray[np.int32], c: NDArray[np.int32], d: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Triangles (2 Q, 3) of the quads with corners ``a b c d`` (Q,), counter-clockwise."""
    return np.stack([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)], axis=1).reshape(-1, 3)
