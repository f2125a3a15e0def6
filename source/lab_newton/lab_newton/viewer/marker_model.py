"""Markers have a model of their own, for the ray tracer."""

from __future__ import annotations

from collections.abc import Sequence

import newton
import numpy as np
import warp as wp

from lab_newton.arrays import present
from lab_newton.model import new_builder
from lab_newton.viewer.markers import Solids

_ROUND = (newton.GeoType.CYLINDER, newton.GeoType.CONE)


class MarkerModel:
    """Shapes that touch nothing and belong to no body; they move by their own poses."""

    def __init__(self, solids: Sequence[Solids], device: wp.Device) -> None:
        """Builds worlds that hold as many shapes, of the same kinds, as ``solids``, and nothing else."""
        self._kinds = _kinds(solids)
        world = new_builder()
        untouchable = newton.ModelBuilder.ShapeConfig(density=0.0, has_shape_collision=False)
        for shape, (_, count) in self._kinds:
            for _ in range(count):
                world.add_shape(body=-1, type=int(shape), scale=wp.vec3(1.0, 1.0, 1.0), cfg=untouchable)
        builder = new_builder()
        builder.replicate(world, len(solids[0].pose_w))
        self.model = builder.finalize(device=device)
        self.state = self.model.state()

    def fits(self, solids: Sequence[Solids]) -> bool:
        """Whether :meth:`place` can show ``solids``."""
        return _kinds(solids) == self._kinds

    def place(self, solids: Sequence[Solids]) -> None:
        """Moves the shapes to where ``solids`` are."""
        self._assign(self.model.shape_transform, [one.pose_w for one in solids])
        self._assign(self.model.shape_scale, [_newton_scale(one) for one in solids])
        self._assign(self.model.shape_color, [np.broadcast_to(one.color, one.scale.shape) for one in solids])

    @staticmethod
    def _assign(array: wp.array | None, parts: Sequence[np.ndarray]) -> None:
        values = np.concatenate(parts, axis=1, dtype=np.float32)
        present(array).assign(values.reshape(-1, values.shape[-1]))


def _kinds(solids: Sequence[Solids]) -> list[tuple[newton.GeoType, tuple[int, ...]]]:
    return [(one.shape, one.scale.shape[:2]) for one in solids]


def _newton_scale(solids: Solids) -> np.ndarray:
    """Returns (N, M, 3) sizes as Newton has them for the kind of shape [m]."""
    x, y, z = np.moveaxis(solids.scale, -1, 0)
    nothing = np.zeros_like(x)
    if solids.shape == newton.GeoType.SPHERE:
        return np.stack((x, nothing, nothing), axis=-1)
    return np.stack((x, z, nothing) if solids.shape in _ROUND else (x, y, z), axis=-1)
