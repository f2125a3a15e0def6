"""Shapes without a file in Newton's builder."""

from __future__ import annotations

from functools import singledispatch

import newton
import numpy as np
import warp as wp

from lab_core.errors import ConfigError
from lab_core.scene import BoxCfg, CapsuleCfg, CylinderCfg, FaceColors, ShapeCfg, SphereCfg

ShapeConfig = newton.ModelBuilder.ShapeConfig

_FRAME = 0.94
"""Share of a face's edges that its colour covers: the rest frames it."""
_STICKER = 0.004
"""Thickness of a face's colour, as a share of the shortest edge. It lies outside of the box: two shapes in one plane
would flicker."""


@singledispatch
def add_shape(
    shape: ShapeCfg, world: newton.ModelBuilder, body: int, cfg: ShapeConfig, attributes: dict[str, object]
) -> None:
    """Adds ``shape`` to ``body``: what collides and has mass, with ``cfg`` and ``attributes``, and what is only drawn.

    What is registered for the class of ``shape`` adds it. Another package adds a shape by registering it beside its
    configuration: ``add_shape.register(ConeCfg, add_cone)``.

    Raises:
        ConfigError: nothing is registered for the class of ``shape``.
    """
    known = ", ".join(sorted(kind.__name__ for kind in add_shape.registry if kind is not object))
    raise ConfigError(
        f"No shape is registered for a {type(shape).__name__}, only for {known}. "
        f"lab_newton.state.add_shape.register({type(shape).__name__}, ...) adds one."
    )


@add_shape.register
def _add_box(
    shape: BoxCfg, world: newton.ModelBuilder, body: int, cfg: ShapeConfig, attributes: dict[str, object]
) -> None:
    hx, hy, hz = (edge / 2.0 for edge in shape.size)
    world.add_shape_box(body, hx=hx, hy=hy, hz=hz, cfg=cfg, color=shape.color, custom_attributes=attributes)
    if shape.face_colors is not None:
        _add_stickers(world, body, np.array((hx, hy, hz)), shape.face_colors)


def _add_stickers(world: newton.ModelBuilder, body: int, half: np.ndarray, colors: FaceColors) -> None:
    """Draws a thin plate on each face; the plates have no mass and touch nothing."""
    drawn = ShapeConfig(density=0.0, has_shape_collision=False, has_particle_collision=False)
    for face, color in enumerate(colors):
        axis, sign = face // 2, 1.0 - 2.0 * (face % 2)
        size = _FRAME * half
        size[axis] = _STICKER * half.min()
        place = np.zeros(3)
        place[axis] = sign * half[axis]
        hx, hy, hz = size.tolist()
        xform = wp.transform(wp.vec3(*place.tolist()), wp.quat_identity())
        world.add_shape_box(body, xform=xform, hx=hx, hy=hy, hz=hz, cfg=drawn, color=color)


@add_shape.register
def _add_sphere(
    shape: SphereCfg, world: newton.ModelBuilder, body: int, cfg: ShapeConfig, attributes: dict[str, object]
) -> None:
    world.add_shape_sphere(body, radius=shape.radius, cfg=cfg, color=shape.color, custom_attributes=attributes)


@add_shape.register
def _add_capsule(
    shape: CapsuleCfg, world: newton.ModelBuilder, body: int, cfg: ShapeConfig, attributes: dict[str, object]
) -> None:
    world.add_shape_capsule(
        body,
        radius=shape.radius,
        half_height=shape.height / 2.0,
        cfg=cfg,
        color=shape.color,
        custom_attributes=attributes,
    )


@add_shape.register
def _add_cylinder(
    shape: CylinderCfg, world: newton.ModelBuilder, body: int, cfg: ShapeConfig, attributes: dict[str, object]
) -> None:
    world.add_shape_cylinder(
        body,
        radius=shape.radius,
        half_height=shape.height / 2.0,
        cfg=cfg,
        color=shape.color,
        custom_attributes=attributes,
    )
