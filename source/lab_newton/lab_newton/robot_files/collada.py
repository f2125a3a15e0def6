"""Meshes in COLLADA files (.dae), which MuJoCo does not read: their corners and faces, as OBJ."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

import numpy as np

_NAME = "{*}"
"""Elements of any namespace: COLLADA has one for each of its versions."""


def to_obj(data: bytes) -> bytes:
    """Returns what the scene of a COLLADA file shows as one OBJ file, in metres.

    As in ROS, the unit of the file counts, and its ``up_axis`` does not. Colours and normals are left out.

    Raises:
        ValueError: there is no triangle or polygon in the scene.
    """
    root = ET.fromstring(data)
    unit = root.find(f"{_NAME}asset/{_NAME}unit")
    scale = 1.0 if unit is None else float(unit.get("meter", 1.0))
    parts = {element.get("id", ""): element for element in root.iter() if element.get("id")}
    lines: list[str] = []
    count, faces = 1, []
    for geometry, place in _shown(root, parts):
        for points, polygons in _meshes(geometry, parts):
            points = scale * (points @ place[:3, :3].T + place[:3, 3])
            lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in points]
            faces += ["f " + " ".join(str(corner + count) for corner in polygon) for polygon in polygons]
            count += len(points)
    if not faces:
        raise ValueError("the COLLADA file shows no triangle or polygon")
    return "\n".join((*lines, *faces, "")).encode()


def _shown(root: ET.Element, parts: dict[str, ET.Element]) -> Iterator[tuple[ET.Element, np.ndarray]]:
    """Yields each geometry of the scene with its pose (4, 4)."""

    def below(node: ET.Element, place: np.ndarray) -> Iterator[tuple[ET.Element, np.ndarray]]:
        for element in node:
            tag = element.tag.rpartition("}")[2]
            place = place @ _transform(tag, element)
            target = parts.get(element.get("url", "").removeprefix("#"))
            if tag == "node":
                yield from below(element, place)
            elif tag == "instance_node" and target is not None:
                yield from below(target, place)
            elif tag == "instance_geometry" and target is not None:
                yield target, place

    scene = root.find(f"{_NAME}scene/{_NAME}instance_visual_scene")
    shown = parts.get("" if scene is None else scene.get("url", "").removeprefix("#"))
    if shown is not None:
        yield from below(shown, np.eye(4))


def _transform(tag: str, element: ET.Element) -> np.ndarray:
    """Returns the pose (4, 4) that an element of a node adds to those before it."""
    pose = np.eye(4)
    if tag not in ("matrix", "translate", "scale", "rotate"):
        return pose
    values = np.array((element.text or "").split(), dtype=float)
    if tag == "matrix":
        return values.reshape(4, 4)
    if tag == "translate":
        pose[:3, 3] = values
    elif tag == "scale":
        pose[:3, :3] = np.diag(values)
    else:  # Rodrigues' formula
        x, y, z = values[:3] / np.linalg.norm(values[:3])
        cross, angle = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]), np.radians(values[3])
        pose[:3, :3] += np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
    return pose


def _meshes(geometry: ET.Element, parts: dict[str, ET.Element]) -> Iterator[tuple[np.ndarray, list[list[int]]]]:
    """Yields corners (V, 3) and polygons of each kind of face in a geometry."""
    kinds = [f for kind in ("triangles", "polylist", "polygons") for f in geometry.findall(f".//{_NAME}{kind}")]
    for element in kinds:
        inputs = element.findall(f"{_NAME}input")
        stride = 1 + max(int(found.get("offset", 0)) for found in inputs)
        corner = next(found for found in inputs if found.get("semantic") == "VERTEX")
        runs = [np.array((found.text or "").split(), dtype=int) for found in element.findall(f"{_NAME}p")]
        corners = [run.reshape(-1, stride)[:, int(corner.get("offset", 0))] for run in runs]
        yield _positions(corner, parts), list(_polygons(element, corners))


def _polygons(element: ET.Element, corners: list[np.ndarray]) -> Iterator[list[int]]:
    if element.tag.endswith("}polygons"):
        yield from (run.tolist() for run in corners)
        return
    counts = element.find(f"{_NAME}vcount")
    for run in corners:
        sizes = [3] * (len(run) // 3) if counts is None else [int(size) for size in (counts.text or "").split()]
        ends = np.cumsum(sizes)
        yield from (run[end - size : end].tolist() for size, end in zip(sizes, ends, strict=True))


def _positions(corner: ET.Element, parts: dict[str, ET.Element]) -> np.ndarray:
    vertices = parts[corner.get("source", "").removeprefix("#")]
    given = next(found for found in vertices.findall(f"{_NAME}input") if found.get("semantic") == "POSITION")
    source = parts[given.get("source", "").removeprefix("#")]
    accessor = source.find(f"{_NAME}technique_common/{_NAME}accessor")
    numbers = source.find(f"{_NAME}float_array")
    assert numbers is not None
    stride = 3 if accessor is None else int(accessor.get("stride", 3))
    return np.array((numbers.text or "").split(), dtype=float).reshape(-1, stride)[:, :3]
