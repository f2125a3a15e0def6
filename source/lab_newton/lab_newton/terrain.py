"""The ground in Newton: what bodies collide with, and what rays hit."""

from __future__ import annotations

from functools import cached_property

import newton
import numpy as np
import warp as wp

from lab_core.scene import SceneCfg
from lab_core.terrain import HeightField, Terrain
from lab_newton.config import TerrainShape

_COLOR = (0.62, 0.58, 0.52)


class Ground:
    """The plane or the generated terrain of a scene; it stands still, in all worlds at once."""

    def __init__(self, scene: SceneCfg, terrain: Terrain | None, shape: TerrainShape, device: wp.Device) -> None:
        self._scene = scene
        self._terrain = terrain
        self._shape = shape
        self._device = device
        self.has_plane = scene.ground is not None

    def add_to(self, builder: newton.ModelBuilder) -> None:
        """Adds the collision shape."""
        if self._scene.ground is not None:
            cfg = self._scene.ground
            shape = newton.ModelBuilder.ShapeConfig(mu=cfg.friction, has_shape_collision=cfg.collision)
            builder.add_ground_plane(cfg=shape, color=(0.72, 0.76, 0.80))
        if self._terrain is not None and self._scene.terrain is not None:
            shape = newton.ModelBuilder.ShapeConfig(mu=self._scene.terrain.friction)
            if self._shape == "heightfield":
                field = _heightfield(self._terrain.to_heightfield())
                builder.add_shape_heightfield(heightfield=field, cfg=shape, color=_COLOR)
            else:
                mesh = self._terrain.to_mesh()
                source = newton.Mesh(mesh.vertices, mesh.triangles.flatten(), compute_inertia=False, is_solid=False)
                builder.add_shape_mesh(body=-1, mesh=source, cfg=shape, color=_COLOR)

    @property
    def mesh_id(self) -> int:
        """Warp's identifier of the terrain's triangles; 0 without a terrain."""
        return 0 if self._mesh is None else self._mesh.id

    @cached_property
    def _mesh(self) -> wp.Mesh | None:
        """The surface that bodies collide with. Made when the first ray asks for it."""
        if self._terrain is None:
            return None
        surface = self._terrain.to_heightfield() if self._shape == "heightfield" else self._terrain
        mesh = surface.to_mesh()
        return wp.Mesh(
            points=wp.array(mesh.vertices, dtype=wp.vec3, device=self._device),
            indices=wp.array(mesh.triangles.flatten(), dtype=wp.int32, device=self._device),
        )


def _heightfield(field: HeightField) -> newton.Heightfield:
    """Newton's rows run along y."""
    heights = np.ascontiguousarray(field.heights.T)
    rows, columns = heights.shape
    width, depth = field.size
    return newton.Heightfield(heights, rows, columns, hx=width / 2, hy=depth / 2)
