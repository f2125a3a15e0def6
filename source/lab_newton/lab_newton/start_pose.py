"""Whether robots start inside of the ground, which throws them into the air."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import newton
import numpy as np

from lab_newton.arrays import present
from lab_newton.state import NewtonEntity

DEPTH = 0.02
"""Deepest shape that is told of [m]: feet that stand sink in by less, and files round."""


def warn_of_sunken_roots(model: newton.Model, state: newton.State, entities: Mapping[str, NewtonEntity]) -> None:
    """Warns of each entity whose root can move and that has a shape deep inside of a plane that it touches.

    Args:
        model: All worlds; what is in the first one counts.
        state: At the default state of all entities.
        entities: By name.
    """
    depths = _depths(model, state)
    for name, entity in entities.items():
        depth, lowest = max(((depths.get(body, 0.0), i) for i, body in enumerate(entity.layout.body)), default=(0.0, 0))
        if depth <= DEPTH or not _root_moves(entity):
            continue
        x, y, z = entity.data.default_root_pose[0, :3].tolist()
        height = math.ceil(1000.0 * (z + depth) - 0.01) / 1000.0
        warnings.warn(
            f"Entity {name!r}: by default it starts inside of the ground, body {entity.layout.body_names[lowest]!r} "
            f"{depth:.3g} m deep. Set init_state.pos to ({x:g}, {y:g}, {height:g}), or higher.",
            stacklevel=4,
        )


def _root_moves(entity: NewtonEntity) -> bool:
    imported = entity.imported
    if entity.layout.floating or imported is None or imported.file is None or imported.root is None:
        return entity.layout.floating
    return imported.root.floats is None and bool(imported.file.model.body_dofnum[imported.root.body])


def _depths(model: newton.Model, state: newton.State) -> dict[int, float]:
    """Returns how deep the lowest point of a body is inside of a plane [m], of the bodies of the first world."""
    if not model.shape_count or model.shape_contact_pairs is None:
        return {}
    types, owners = present(model.shape_type).numpy(), present(model.shape_body).numpy()
    worlds = present(model.shape_world).numpy()
    pairs = np.asarray(model.shape_contact_pairs.numpy(), dtype=np.int64)
    is_plane = types[pairs] == int(newton.GeoType.PLANE)
    pairs = np.where(is_plane[:, :1], pairs[:, ::-1], pairs)[np.any(is_plane, axis=1)]  # the plane comes second
    pairs = pairs[(worlds[pairs[:, 0]] <= 0) & (owners[pairs[:, 0]] >= 0)]
    places, sizes = present(model.shape_transform).numpy(), present(model.shape_scale).numpy()
    poses = present(state.body_q).numpy()
    found: dict[int, float] = {}
    for shape, plane in pairs.tolist():
        body = int(owners[shape])
        up = _turned(places[plane, 3:], np.array((0.0, 0.0, 1.0)))
        middle = poses[body, :3] + _turned(poses[body, 3:], places[shape, :3])
        down = _turned_back(places[shape, 3:], _turned_back(poses[body, 3:], -up))
        height = float((middle - places[plane, :3]) @ up) - reach(
            newton.GeoType(int(types[shape])), sizes[shape], model.shape_source[shape], down
        )
        found[body] = max(found.get(body, 0.0), -height)
    return found


def reach(kind: newton.GeoType, size: np.ndarray, source: Any, direction: np.ndarray) -> float:
    """Returns how far a shape extends from its middle along a unit vector (3,) in its own frame [m]."""
    aside, along = float(np.hypot(*direction[:2])), abs(float(direction[2]))
    if kind == newton.GeoType.SPHERE:
        return float(size[0])
    if kind == newton.GeoType.CAPSULE:
        return float(size[0] + size[1] * along)
    if kind == newton.GeoType.CYLINDER:
        return float(size[0] * aside + size[1] * along)
    if kind == newton.GeoType.BOX:
        return float(np.abs(direction) @ size)
    if kind == newton.GeoType.ELLIPSOID:
        return float(np.linalg.norm(direction * size))
    if kind in (newton.GeoType.MESH, newton.GeoType.CONVEX_MESH):
        return float((source.vertices * size @ direction).max())
    return -math.inf


def _turned(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Returns ``vector`` (3,) turned by ``quat`` (4,), xyzw."""
    twice = 2.0 * np.cross(quat[:3], vector)
    return vector + quat[3] * twice + np.cross(quat[:3], twice)


def _turned_back(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return _turned(quat * np.array((-1.0, -1.0, -1.0, 1.0)), vector)
