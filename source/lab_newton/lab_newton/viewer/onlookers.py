"""All who look at a scene: a camera for pictures, and pages in browsers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import newton
import numpy as np
import torch
import warp as wp

from lab_core.errors import unknown_name_message
from lab_core.markers import Markers, MarkerSource, choose_sources, collect_markers
from lab_core.names import UnknownNameError
from lab_core.physics import Ghost, SettableCommand
from lab_core.scene import CameraCfg
from lab_newton.state import NewtonEntity
from lab_newton.viewer.camera import CameraRenderer
from lab_newton.viewer.ghosts import GhostModels
from lab_warp.progress import quiet_warp

if TYPE_CHECKING:
    from lab_newton.viewer.browser import BrowserViewer


class Onlookers:
    """Shows one model, until :meth:`close`. Nothing is made before somebody looks, and looking changes nothing."""

    def __init__(
        self,
        model: newton.Model,
        state: Callable[[], newton.State],
        entities: Mapping[str, NewtonEntity],
        env_origins: torch.Tensor,
        ghosts: Callable[[], Sequence[Ghost]],
        marker_sources: Mapping[str, MarkerSource],
    ) -> None:
        """Takes what there is to see.

        Args:
            model: The simulated model.
            state: Gives the state to show.
            entities: Its entities, by name.
            env_origins: (N, 3) origins of the environments [m].
            ghosts: Gives the ghosts to draw.
            marker_sources: Name -> what gives markers to draw.
        """
        self._model = model
        self._state = state
        self._entities = entities
        self._env_origins = env_origins
        self._ghosts = ghosts
        self._marker_sources = marker_sources
        self._camera: CameraRenderer | None = None
        self._pages: list[BrowserViewer] = []

    def render(self, camera: CameraCfg) -> np.ndarray:
        """Returns a picture; see :meth:`PhysicsBackend.render`.

        Raises:
            UnknownNameError: the camera follows no entity of the scene, or is to show markers that there are not.
        """
        origins = self._origins_moved_with(camera.follow)()
        with quiet_warp():
            if self._camera is None:
                self._camera = CameraRenderer(self._model, self._ghost_models(), self._chosen_markers)
            return self._camera.render(self._state(), camera, origins)

    def open_page(
        self,
        camera: CameraCfg,
        env_spacing: float,
        host: str,
        port: int,
        commands: Mapping[str, SettableCommand],
        on_reset: Callable[[], None] | None,
    ) -> BrowserViewer:
        """Serves a page; see :class:`~lab_newton.viewer.browser.BrowserViewer`."""
        entity = next(iter(self._entities), None) if camera.follow is None else camera.follow
        origins = self._origins_moved_with(entity)
        from lab_newton.viewer.browser import BrowserViewer  # its server is nothing that a training waits for

        page = BrowserViewer(
            self._model,
            self._state,
            origins,
            self._ghost_models(),
            self._marker_sources,
            camera,
            env_spacing,
            host,
            port,
            commands,
            on_reset,
        )
        self._pages.append(page)
        return page

    def close(self) -> None:
        """Closes the pages; safe to call twice."""
        for page in self._pages:
            page.close()
        self._pages.clear()

    def _chosen_markers(self, patterns: Sequence[str]) -> list[Markers]:
        chosen = choose_sources(patterns, list(self._marker_sources))
        return collect_markers(self._marker_sources, chosen, len(self._env_origins))

    def _ghost_models(self) -> GhostModels:
        return GhostModels(self._ghosts, self._entities, wp.get_device(self._model.device))

    def _origins_moved_with(self, entity: str | None) -> Callable[[], np.ndarray]:
        """Gives (N, 3) the environments' origins, moved as far as the entity's root is from its default [m]."""
        if entity is None:
            return lambda: self._env_origins.cpu().numpy()
        if entity not in self._entities:
            raise UnknownNameError(unknown_name_message("entity", entity, self._entities))
        data = self._entities[entity].data
        return lambda: (data.root_link_pose_w - data.default_root_pose)[:, :3].cpu().numpy()
