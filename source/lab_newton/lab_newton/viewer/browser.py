"""The page: Newton's viser viewer, with controls for playing a policy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import newton
import numpy as np
import warp as wp
from newton.viewer import ViewerViser

from lab_core.markers import MarkerSource
from lab_core.physics import SettableCommand
from lab_core.scene import CameraCfg
from lab_newton.viewer.address import free_port
from lab_newton.viewer.command_folder import CommandFolder
from lab_newton.viewer.events import PageEvents
from lab_newton.viewer.ghosts import GhostModels
from lab_newton.viewer.marker_folder import MarkerFolder
from lab_newton.viewer.view_folder import ViewFolder
from lab_warp.progress import quiet_warp

_ASKED_EVERY_S = 0.2
"""How often the page reads what command a robot follows."""
_SCENE, _GHOSTS, _MARKERS = "scene", "ghosts", "markers"
"""Layers, which the page lets people hide."""


class _SelectiveViewer(ViewerViser):
    """Looks at no world before it is told which: going through thousands takes it minutes."""

    def _should_render_world(self, world_idx: int) -> bool:
        is_global = world_idx == -1
        return is_global or (self._visible_worlds is not None and world_idx in self._visible_worlds)


class BrowserViewer:
    """Serves some of the environments, side by side on a grid, until :meth:`close`.

    Following a robot moves the scene instead of the camera, which stays the user's: to look around, and to come nearer.
    """

    def __init__(
        self,
        model: newton.Model,
        state: Callable[[], newton.State],
        origins: Callable[[], np.ndarray],
        ghosts: GhostModels,
        marker_sources: Mapping[str, MarkerSource],
        camera: CameraCfg,
        env_spacing: float,
        host: str,
        port: int,
        commands: Mapping[str, SettableCommand],
        on_reset: Callable[[], None] | None,
    ) -> None:
        """Starts to serve on ``host``, at ``port`` or at the next free one.

        Args:
            state: Gives the state to show.
            origins: Gives (N, 3) what the camera is placed relative to: the environments' origins, moved along with
                their robots [m].
            ghosts: What is drawn beside that, in a layer of its own.
            marker_sources: Name -> what gives markers; each has a switch, and those that the camera shows are on.
            camera: The first view; then it is the user's.
            env_spacing: Distance by which environments are drawn apart [m].
            commands: Commands to control, by name.
            on_reset: What the page's reset button does.

        Raises:
            LabError: ``host`` is no address of this machine, or no port is free.
        """
        self._state = state
        self._origins = origins
        self._viewer = _SelectiveViewer(host=host, port=free_port(host, port), label="lab", verbose=False)
        self._ghosts = ghosts
        self._spacing = (env_spacing, env_spacing, 0.0)
        self._num_worlds = model.world_count
        self._viewer.activate(_SCENE)  # only layers with names can be come back to
        with quiet_warp():
            self._viewer.set_model(model)
        self._viewer.set_world_offsets(self._spacing)
        self._viewer.picking_enabled = False  # the physics takes no forces from the page
        self._viewer.set_reset_callback(on_reset)
        self.url: str = self._viewer.url
        """Address for the browser."""
        self.gui = gui = self._viewer.server.gui
        """Where to add controls."""
        self.events = PageEvents()
        """What people do with them."""
        self._status = gui.add_markdown("", order=-1.0)
        self._commands = [
            CommandFolder(
                gui, self.events, "Command" if len(commands) == 1 else f"Command {name}", term, 1.0, keys=index == 0
            )
            for index, (name, term) in enumerate(commands.items())
        ]
        self._view = ViewFolder(gui, self.events, model.world_count, camera.follow is not None, order=2.0)
        self._markers = MarkerFolder(
            self._viewer, self.events, marker_sources, camera.markers, model.world_count, order=3.0
        )
        self._worlds: tuple[int, ...] = ()
        self._ghost_worlds: tuple[int, ...] = ()
        self._shift = [0.0, 0.0, 0.0]
        self._show_worlds()
        self._home = self._place_camera(camera)
        self._start = time.monotonic()
        self._asked_at = -math.inf
        self._open = True
        self.update()

    def should_step(self) -> bool:
        """Whether to make the next step: always, unless the page says pause; then once per click on its step button."""
        return self._viewer.should_step()

    def update(self, status: str = "") -> None:
        """Does what people asked for on the page, and shows the current state with ``status`` above the controls."""
        self.events.run()
        now = time.monotonic() - self._start
        self._viewer.begin_frame(now)
        self._show_worlds()
        if self._view.view.follows:
            self._move_to_home(self._view.view.robot)
        if now >= self._asked_at + _ASKED_EVERY_S:
            self._asked_at = now
            for folder in self._commands:
                folder.show_asked(self._view.view.robot)
        if self._status.content != status:
            self._status.content = status
        with quiet_warp():
            self._viewer.log_state(self._state())
            self._show_ghosts()
            self._show_markers()
        self._viewer.end_frame()

    def close(self) -> None:
        """Stops serving; safe to call twice."""
        if self._open:
            self._open = False
            self._viewer.close()

    def _show_worlds(self) -> None:
        if self._worlds != self._view.view.worlds:
            self._worlds = self._view.view.worlds
            self._viewer.set_visible_worlds(self._worlds)

    def _show_ghosts(self) -> None:
        ghosts = self._ghosts.present(self._num_worlds)
        if ghosts is None:
            if _GHOSTS in self._viewer.layers:
                self._viewer.remove_layer(_GHOSTS)
            return
        self._viewer.activate(_GHOSTS)
        self._viewer.set_layer_transform(_GHOSTS, self._shift)
        if self._viewer.model is not ghosts.model:
            self._viewer.set_model(ghosts.model)
            self._viewer.set_world_offsets(self._spacing)
            self._ghost_worlds = ()
        if self._ghost_worlds != self._worlds:
            self._ghost_worlds = self._worlds
            self._viewer.set_visible_worlds(self._worlds)
        self._viewer.log_state(ghosts.state)
        self._viewer.activate(_SCENE)

    def _show_markers(self) -> None:
        offsets = self._grid()
        self._viewer.activate(_MARKERS)
        self._markers.draw(self._worlds, offsets + self._shift)
        self._viewer.activate(_SCENE)

    def _grid(self) -> np.ndarray:
        """(N, 3) by how much each world is drawn away from where it is [m]; call it with the scene's layer active."""
        offsets = self._viewer.world_offsets
        return np.zeros((self._num_worlds, 3)) if offsets is None else offsets.numpy()

    def _drawn_origins(self) -> np.ndarray:
        """(N, 3) where :attr:`_origins` are drawn when the scene is not moved [m]."""
        return self._origins() + self._grid()

    def _move_to_home(self, robot: int) -> None:
        shift = self._home - self._drawn_origins()[robot]
        self._shift: list[float] = shift.tolist()
        self._viewer.set_layer_transform(_SCENE, self._shift)

    def _place_camera(self, camera: CameraCfg) -> np.ndarray:
        """Looks at the foremost robot, and returns where that one's origin is drawn (3,) [m]."""
        origins = self._drawn_origins()
        robot = self._worlds[foremost(origins[list(self._worlds)], np.subtract(camera.eye, camera.target))]
        self._view.set_robot(robot)
        eye = wp.vec3(*(origins[robot] + np.array(camera.eye)).tolist())
        x, y, z = np.subtract(camera.target, camera.eye)
        yaw, pitch = math.atan2(y, x), math.atan2(z, math.hypot(x, y))
        self._viewer.set_camera(eye, pitch=math.degrees(pitch), yaw=math.degrees(yaw))
        return origins[robot]


def foremost(origins: np.ndarray, towards_eye: np.ndarray) -> int:
    """Returns the index of one of ``origins`` (W, 3) that no other stands in front of, seen from the side of
    ``towards_eye``."""
    return int(np.argmax(origins[:, :2] @ towards_eye[:2]))
