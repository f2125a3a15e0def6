"""Arrows, spheres, frames and boxes that are drawn into the scene and are no part of the physics.

Positions are in the world frame [m]; ``K`` is a number of markers per environment, which may be any. A marker with a
number that is not finite is not drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch

from lab_core.config import Share
from lab_core.errors import LabError, unknown_name_message
from lab_core.names import UnknownNameError

Color = tuple[Share, Share, Share]
"""Red, green and blue, 0 .. 1 each."""

GREEN: Color = (0.20, 0.72, 0.30)
"""What is asked for."""
BLUE: Color = (0.16, 0.42, 0.90)
"""What is reached."""
ORANGE: Color = (0.95, 0.55, 0.10)
"""What is felt or seen."""


@dataclass(frozen=True, kw_only=True)
class ArrowMarkers:
    """Vectors; those shorter than they are thick are not drawn."""

    shapes: ClassVar[Mapping[str, tuple[int, ...]]] = {"start_w": (3,), "vector_w": (3,)}
    start_w: torch.Tensor
    """(N, K, 3) where they begin."""
    vector_w: torch.Tensor
    """(N, K, 3) from there to their tips."""
    color: Color = GREEN
    radius: float = 0.015
    """Of the shaft [m]."""


@dataclass(frozen=True, kw_only=True)
class SphereMarkers:
    """Points."""

    shapes: ClassVar[Mapping[str, tuple[int, ...]]] = {"center_w": (3,)}
    center_w: torch.Tensor
    """(N, K, 3)."""
    color: Color = GREEN
    radius: float = 0.03
    """[m]."""


@dataclass(frozen=True, kw_only=True)
class FrameMarkers:
    """Frames: their x, y and z axes in red, green and blue."""

    shapes: ClassVar[Mapping[str, tuple[int, ...]]] = {"pose_w": (7,)}
    pose_w: torch.Tensor
    """(N, K, 7) position, then quaternion xyzw."""
    length: float = 0.2
    """Of an axis [m]."""
    radius: float = 0.008
    """Of an axis [m]."""


@dataclass(frozen=True, kw_only=True)
class PoseMarkers:
    """Poses of things that have a size, as boxes."""

    shapes: ClassVar[Mapping[str, tuple[int, ...]]] = {"pose_w": (7,)}
    pose_w: torch.Tensor
    """(N, K, 7) of the middle: position, then quaternion xyzw."""
    size: tuple[float, float, float]
    """Along the axes of the pose [m]."""
    color: Color = GREEN


Markers = ArrowMarkers | SphereMarkers | FrameMarkers | PoseMarkers
MarkerSource = Callable[[], Sequence[Markers]]
"""Gives the markers to draw now. It is called where somebody looks, between steps, and never captured."""


@runtime_checkable
class Drawing(Protocol):
    """A term that draws."""

    def markers(self) -> Sequence[Markers]:
        """Returns the markers to draw now; see :data:`MarkerSource`."""
        ...


def choose_sources(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns those of ``names`` that fully match one of the regular expressions.

    Raises:
        UnknownNameError: a pattern that is a plain name is none of them. A pattern in the proper sense may match none.
    """
    for pattern in patterns:
        if pattern == re.escape(pattern) and pattern not in names:
            raise UnknownNameError(unknown_name_message("markers", pattern, names))
    return [name for name in names if any(re.fullmatch(pattern, name) for pattern in patterns)]


def collect_markers(sources: Mapping[str, MarkerSource], chosen: Sequence[str], num_envs: int) -> list[Markers]:
    """Returns the markers of the ``chosen`` ones of ``sources``, which is what a backend draws.

    Raises:
        LabError: a source gives something else, or a tensor that is not (num_envs, K, ...).
    """
    found: list[Markers] = []
    for name in chosen:
        for markers in sources[name]():
            _check(name, markers, num_envs)
            found.append(markers)
    return found


def _check(name: str, markers: Markers, num_envs: int) -> None:
    if not isinstance(markers, Markers):
        raise LabError(f"{name} must give markers to draw, got {type(markers).__name__}.")
    counts = {field: tuple(getattr(markers, field).shape) for field in markers.shapes}
    for field, shape in counts.items():
        expected = markers.shapes[field]
        if len(shape) != 3 or (shape[0], shape[2:]) != (num_envs, expected):
            raise LabError(
                f"{field} of the {type(markers).__name__} of {name} must have the shape "
                f"({num_envs}, K, {expected[0]}), got {shape}."
            )
    if len({shape[1] for shape in counts.values()}) > 1:
        raise LabError(f"The {type(markers).__name__} of {name} are not equally many: {counts}.")
