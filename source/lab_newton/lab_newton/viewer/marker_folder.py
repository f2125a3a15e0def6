"""Markers on the page, with a switch for each source of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import newton
import numpy as np
import viser
import warp as wp
from newton.viewer import ViewerViser

from lab_core.markers import MarkerSource, choose_sources, collect_markers
from lab_newton.viewer.events import PageEvents
from lab_newton.viewer.markers import Solids, solids

_SHAPES: tuple[newton.GeoType, ...] = (
    newton.GeoType.SPHERE,
    newton.GeoType.BOX,
    newton.GeoType.CYLINDER,
    newton.GeoType.CONE,
)


class MarkerFolder:
    """Its switches; sources whose switch is off are never asked."""

    def __init__(
        self,
        viewer: ViewerViser,
        events: PageEvents,
        sources: Mapping[str, MarkerSource],
        shown: Sequence[str],
        num_envs: int,
        order: float,
    ) -> None:
        """Makes a switch for each of ``sources``, if there are any; those that match ``shown`` are on."""
        self._viewer = viewer
        self._sources = sources
        self._num_envs = num_envs
        self._shown = set(choose_sources(shown, list(sources)))
        self._drawn: set[newton.GeoType] = set()
        if sources:
            with viewer.server.gui.add_folder("Markers", order=order):
                for name in sources:
                    self._add_switch(viewer.server.gui, events, name)

    def draw(self, worlds: Sequence[int], shift: np.ndarray) -> None:
        """Draws those of ``worlds`` into the active layer, each world moved by its row of ``shift`` (N, 3) [m]."""
        chosen = [name for name in self._sources if name in self._shown]
        parts = {one.shape: one for one in solids(collect_markers(self._sources, chosen, self._num_envs), len(shift))}
        for shape in _SHAPES:
            if shape in parts:
                self._draw(parts[shape], list(worlds), shift)
            elif shape in self._drawn:
                self._viewer.log_instances(_path(shape), _mesh(shape), None, None, None, None, hidden=True)

    def _draw(self, part: Solids, worlds: list[int], shift: np.ndarray) -> None:
        if part.shape not in self._drawn:
            self._drawn.add(part.shape)
            self._viewer.log_geo(_mesh(part.shape), int(part.shape), (1.0, 1.0, 1.0), 0.0, True, hidden=True)
        pose = part.pose_w[worlds].copy()
        pose[..., :3] += shift[worlds][:, None]
        scale = part.scale[worlds]
        color = np.broadcast_to(part.color, scale.shape)
        scales, colors = (wp.array(values.reshape(-1, 3), dtype=wp.vec3, device="cpu") for values in (scale, color))
        poses = wp.array(pose.reshape(-1, 7), dtype=wp.transformf, device="cpu")
        self._viewer.log_instances(_path(part.shape), _mesh(part.shape), poses, scales, colors, None)

    def _add_switch(self, gui: viser.GuiApi, events: PageEvents, name: str) -> None:
        switch = gui.add_checkbox(name, name in self._shown)

        events.on_input(switch, partial(self._set_shown, name))

    def _set_shown(self, name: str, on: bool) -> None:
        (self._shown.add if on else self._shown.discard)(name)


def _path(shape: newton.GeoType) -> str:
    return f"markers/{shape.name.lower()}"


def _mesh(shape: newton.GeoType) -> str:
    return f"markers/shapes/{shape.name.lower()}"
