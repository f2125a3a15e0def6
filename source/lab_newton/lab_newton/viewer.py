"""A live view of the scene in the browser, by Newton's viser viewer."""

from __future__ import annotations

import errno
import math
import socket
import time
from collections.abc import Callable

import newton
import numpy as np
import warp as wp
from newton.viewer import ViewerViser

from lab_core.errors import LabError
from lab_core.scene import CameraCfg

_PORTS_TRIED = 20


class BrowserViewer:
    """Serves all environments, side by side on a grid, until :meth:`close`."""

    def __init__(
        self,
        model: newton.Model,
        state: Callable[[], newton.State],
        camera: CameraCfg,
        origins: np.ndarray,
        env_spacing: float,
        host: str,
        port: int,
    ) -> None:
        """Starts to serve on ``host``, at ``port`` or at the next free one.

        Args:
            state: Gives the state to show.
            camera: The first view; then it is the user's.
            origins: (N, 3) what the camera is placed relative to [m].
            env_spacing: Distance by which environments are drawn apart [m].

        Raises:
            LabError: ``host`` is no address of this machine, or no port is free.
        """
        self._state = state
        self._viewer = ViewerViser(host=host, port=free_port(host, port), label="lab", verbose=False)
        self._viewer.set_model(model)
        self._viewer.set_world_offsets((env_spacing, env_spacing, 0.0))
        self.url: str = self._viewer.url
        """Address for the browser."""
        self._place_camera(camera, origins)
        self._start = time.monotonic()
        self._open = True
        self.update()

    def update(self) -> None:
        """Shows the current state."""
        self._viewer.begin_frame(time.monotonic() - self._start)
        self._viewer.log_state(self._state())
        self._viewer.end_frame()

    def close(self) -> None:
        """Stops serving; safe to call twice."""
        if self._open:
            self._open = False
            self._viewer.close()

    def _place_camera(self, camera: CameraCfg, origins: np.ndarray) -> None:
        offsets = self._viewer.world_offsets
        if offsets is not None and len(offsets):
            origins = origins + offsets.numpy()
        origin = foremost(origins, np.subtract(camera.eye, camera.target))
        eye = wp.vec3(*(origin + np.array(camera.eye)).tolist())
        x, y, z = np.subtract(camera.target, camera.eye)
        yaw, pitch = math.atan2(y, x), math.atan2(z, math.hypot(x, y))
        self._viewer.set_camera(eye, pitch=math.degrees(pitch), yaw=math.degrees(yaw))


def foremost(origins: np.ndarray, towards_eye: np.ndarray) -> np.ndarray:
    """Returns the one of ``origins`` (W, 3) that no other stands in front of, seen from the side of ``towards_eye``."""
    return origins[np.argmax(origins[:, :2] @ towards_eye[:2])]


def free_port(host: str, port: int) -> int:
    """Returns ``port``, or the first free one of those that follow.

    Raises:
        LabError: ``host`` is no address of this machine, or the ports are all taken.
    """
    for candidate in range(port, port + _PORTS_TRIED):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except PermissionError as error:
                raise LabError(f"The viewer may not listen on port {candidate}: {error}.") from error
            except socket.gaierror as error:
                raise LabError(f"The viewer cannot listen on host {host!r}: {error}.") from error
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise LabError(f"The viewer cannot listen on host {host!r}: {error}.") from error
                continue
        return candidate
    raise LabError(f"Ports {port} to {port + _PORTS_TRIED - 1} of {host} are all taken. Choose another port.")
