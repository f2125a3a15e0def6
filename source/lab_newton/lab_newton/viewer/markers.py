"""Markers as solid shapes, whoever draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

import newton
import numpy as np
import torch

from lab_core.markers import ArrowMarkers, FrameMarkers, Markers, PoseMarkers, SphereMarkers
from lab_core.math import quat_apply

_HEAD_RADIUS, _HEAD_LENGTH = 2.5, 6.0
"""Of an arrow's head, in radii of its shaft."""
_AXES: tuple[tuple[float, float, float], ...] = ((0.85, 0.15, 0.15), (0.15, 0.70, 0.20), (0.15, 0.30, 0.90))


@dataclass(frozen=True)
class Solids:
    """Equal shapes, M in each of N environments."""

    shape: newton.GeoType
    """Sphere, box, cylinder or cone; the last two along z."""
    pose_w: np.ndarray
    """(N, M, 7) of the middle in the world frame: position [m], then quaternion xyzw."""
    scale: np.ndarray
    """(N, M, 3) half the size along its axes [m]; 0 where nothing is drawn."""
    color: np.ndarray
    """(M, 3)."""


def solids(markers: Sequence[Markers], num_envs: int) -> list[Solids]:
    """Returns what the markers of the first ``num_envs`` environments look like: one entry per shape."""
    parts = [part for one in markers for part in _parts(one)]
    return [
        _join(shape, [part for part in parts if part.shape == shape], num_envs)
        for shape in dict.fromkeys(part.shape for part in parts)
    ]


@dataclass(frozen=True)
class _Part:
    shape: newton.GeoType
    pose: torch.Tensor
    """(N, K, 7)."""
    scale: torch.Tensor
    """(N, K, 3)."""
    color: tuple[float, float, float]


def _join(shape: newton.GeoType, parts: Sequence[_Part], num_envs: int) -> Solids:
    pose = torch.cat([part.pose[:num_envs] for part in parts], dim=1).float().cpu()
    scale = torch.cat([part.scale[:num_envs] for part in parts], dim=1).float().cpu()
    finite = (pose.isfinite().all(dim=-1) & scale.isfinite().all(dim=-1))[..., None]
    nowhere = torch.tensor((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    color = [part.color for part in parts for _ in range(part.pose.shape[1])]
    return Solids(
        shape,
        torch.where(finite, pose, nowhere).numpy(),
        torch.where(finite, scale, torch.zeros(3)).numpy(),
        np.array(color, dtype=np.float32).reshape(-1, 3),
    )


@singledispatch
def _parts(markers: Markers) -> list[_Part]:
    raise TypeError(f"{type(markers).__name__} cannot be drawn.")


@_parts.register
def _(markers: SphereMarkers) -> list[_Part]:
    rotation = markers.center_w.new_tensor((0.0, 0.0, 0.0, 1.0)).expand(*markers.center_w.shape[:2], 4)
    pose = torch.cat((markers.center_w, rotation), dim=-1)
    return [_Part(newton.GeoType.SPHERE, pose, _sizes(pose, (markers.radius,) * 3), markers.color)]


@_parts.register
def _(markers: PoseMarkers) -> list[_Part]:
    x, y, z = markers.size
    return [_Part(newton.GeoType.BOX, markers.pose_w, _sizes(markers.pose_w, (x / 2, y / 2, z / 2)), markers.color)]


@_parts.register
def _(markers: FrameMarkers) -> list[_Part]:
    position, rotation = markers.pose_w[..., :3], markers.pose_w[..., 3:]
    axes = markers.length * torch.eye(3, device=position.device)
    vectors = [quat_apply(rotation, axis.expand_as(position)) for axis in axes]
    return [_cylinder(position, vector, markers.radius, color) for vector, color in zip(vectors, _AXES, strict=True)]


@_parts.register
def _(markers: ArrowMarkers) -> list[_Part]:
    length = markers.vector_w.norm(dim=-1, keepdim=True)
    head = (_HEAD_LENGTH * markers.radius * markers.vector_w / length).where(
        length > 2.0 * _HEAD_LENGTH * markers.radius, 0.5 * markers.vector_w
    )
    shaft = (markers.vector_w - head).where(length > 2.0 * markers.radius, torch.nan)
    cone = _cylinder(markers.start_w + shaft, head, _HEAD_RADIUS * markers.radius, markers.color, newton.GeoType.CONE)
    return [_cylinder(markers.start_w, shaft, markers.radius, markers.color), cone]


def _cylinder(
    start: torch.Tensor,
    vector: torch.Tensor,
    radius: float,
    color: tuple[float, float, float],
    shape: newton.GeoType = newton.GeoType.CYLINDER,
) -> _Part:
    """Returns shapes along ``vector`` (N, K, 3) from ``start`` (N, K, 3) [m]."""
    length = vector.norm(dim=-1, keepdim=True)
    pose = torch.cat((start + 0.5 * vector, _turn_z_to(vector / length)), dim=-1)
    scale = torch.cat((torch.full_like(length, radius), torch.full_like(length, radius), 0.5 * length), dim=-1)
    return _Part(shape, pose, scale, color)


def _turn_z_to(direction: torch.Tensor) -> torch.Tensor:
    """Returns the shortest rotations (..., 4), xyzw, of the z axis to unit vectors (..., 3); half a turn about x for
    those that point straight down."""
    x, y, z = direction.unbind(dim=-1)
    quat = torch.stack((-y, x, torch.zeros_like(x), 1.0 + z), dim=-1)
    down = quat.new_tensor((1.0, 0.0, 0.0, 0.0))
    return torch.where((z < -1.0 + 1e-6)[..., None], down, quat / quat.norm(dim=-1, keepdim=True))


def _sizes(pose: torch.Tensor, size: tuple[float, ...]) -> torch.Tensor:
    return pose.new_tensor(size).expand(*pose.shape[:2], 3)
