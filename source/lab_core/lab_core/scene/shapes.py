"""Shapes that need no file: solid, of one density, centred at the origin of their body."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from lab_core.config import MISSING, Positive, Settings
from lab_core.markers import Color

FaceColors = tuple[Color, Color, Color, Color, Color, Color]
"""Colours of the faces +x, -x, +y, -y, +z and -z of a box."""

SIX_COLORS: FaceColors = (
    (0.84, 0.15, 0.16),  # red
    (0.95, 0.52, 0.10),  # orange
    (0.17, 0.63, 0.24),  # green
    (0.16, 0.38, 0.85),  # blue
    (0.96, 0.86, 0.20),  # yellow
    (0.95, 0.95, 0.95),  # white
)
"""Six that are told apart at a glance, so that an orientation can be seen."""


@dataclass(kw_only=True)
class ShapeCfg(Settings, ABC):
    """Base of shapes; a physics backend has a part of its own for each class."""

    color: Color = (0.55, 0.60, 0.68)
    """Red, green and blue, 0 .. 1 each; only drawn."""

    @property
    @abstractmethod
    def volume(self) -> float:
        """Volume [m^3]."""


@dataclass(kw_only=True)
class BoxCfg(ShapeCfg):
    """A box along the axes of its body."""

    size: tuple[Positive, Positive, Positive] = MISSING
    """Lengths of its edges along x, y and z [m]."""
    face_colors: FaceColors | None = None
    """A colour for each face, framed by ``color``; only drawn. None: all have ``color``."""

    @property
    def volume(self) -> float:
        return math.prod(self.size)


@dataclass(kw_only=True)
class SphereCfg(ShapeCfg):
    """A sphere."""

    radius: Positive = MISSING
    """[m]."""

    @property
    def volume(self) -> float:
        return 4.0 / 3.0 * math.pi * self.radius**3


@dataclass(kw_only=True)
class CapsuleCfg(ShapeCfg):
    """A cylinder along z with a half sphere at each end."""

    radius: Positive = MISSING
    """[m]."""
    height: Positive = MISSING
    """Of the cylinder, without the half spheres [m]."""

    @property
    def volume(self) -> float:
        return math.pi * self.radius**2 * (self.height + 4.0 / 3.0 * self.radius)


@dataclass(kw_only=True)
class CylinderCfg(ShapeCfg):
    """A cylinder along z."""

    radius: Positive = MISSING
    """[m]."""
    height: Positive = MISSING
    """[m]."""

    @property
    def volume(self) -> float:
        return math.pi * self.radius**2 * self.height
