"""Pictures of the scene by Newton's ray tracer: no display, GPU or system package needed."""

# Warp's annotations of arrays, matrices and poses do not describe what they take from Python.
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import newton
import numpy as np
import warp as wp
from newton.sensors import SensorCamera

from lab_core.markers import Markers
from lab_core.scene import CameraCfg
from lab_newton.viewer.ghosts import OPACITY, GhostModels
from lab_newton.viewer.marker_model import MarkerModel
from lab_newton.viewer.markers import solids

_SKY = np.array((104.0, 158.0, 222.0))
_HORIZON = np.array((212.0, 226.0, 238.0))
_VISIBILITY = 40.0
"""Distance at which haze has taken 63 % of a colour [m]; it also hides that the ground's pattern aliases far away."""


class CameraRenderer:
    """Renders environments of a model as seen by one camera per environment, side by side in one picture.

    Ghosts and markers are rendered by themselves and joined to the picture by depth: ghosts shine through what they are
    in front of, what is in front of either hides it, and they throw no shadows.
    """

    def __init__(
        self, model: newton.Model, ghosts: GhostModels, markers: Callable[[Sequence[str]], Sequence[Markers]]
    ) -> None:
        """``markers`` gives those of some names."""
        self._view = _View(model)
        self._ghosts = ghosts
        self._ghost_view: _View | None = None
        self._markers = markers
        self._marker_model: MarkerModel | None = None
        self._marker_view: _View | None = None

    def render(self, state: newton.State, camera: CameraCfg, origins: np.ndarray) -> np.ndarray:
        """Returns a uint8 RGB picture (height, width, 3) of the first ``camera.num_envs`` environments.

        The camera of each is placed relative to its row of ``origins`` (N, 3) [m].
        """
        count = min(camera.num_envs, self._view.model.world_count)
        columns = math.ceil(math.sqrt(count))
        rows = math.ceil(count / columns)
        tiles = self._tiles(state, camera, origins[:count], camera.width // columns, camera.height // rows)
        picture = np.empty((camera.height, camera.width, 3), dtype=np.uint8)
        picture[:] = _HORIZON.astype(np.uint8)
        _, height, width, _ = tiles.shape
        for i, tile in enumerate(tiles):
            row, column = divmod(i, columns)
            picture[row * height : (row + 1) * height, column * width : (column + 1) * width] = tile
        return picture

    def _tiles(
        self, state: newton.State, camera: CameraCfg, origins: np.ndarray, width: int, height: int
    ) -> np.ndarray:
        with wp.ScopedDevice(self._view.model.device):
            rays = SensorCamera.compute_camera_rays_pinhole(width, height, camera_fov=math.radians(camera.fov))
            pose = look_at(camera.eye, camera.target)
            rotation = wp.transform_get_rotation(pose)
            eyes = origins + np.asarray(camera.eye)
            poses = wp.array([wp.transformf(wp.vec3(*eye), rotation) for eye in eyes.tolist()], dtype=wp.transformf)
            pixels, depth = self._view.take(state, poses, rays)
            layers = ((self._take_ghosts(poses, rays), OPACITY), (self._take_markers(camera, poses, rays), 1.0))
        to_world = np.array(wp.quat_to_matrix(rotation)).reshape(3, 3)
        elevation = (rays.numpy()[:, :, 0, 1] @ to_world.T)[..., 2:]
        tiles = _add_atmosphere(pixels, depth, elevation)
        for layer, opacity in layers:
            if layer is not None:
                pixels, layer_depth = layer
                in_front = (layer_depth > 0.0) & ((layer_depth < depth) | (depth == 0.0))
                mixed = tiles + opacity * (_add_atmosphere(pixels, layer_depth, elevation) - tiles)
                tiles = np.where(in_front, mixed, tiles)
        return tiles.astype(np.uint8)

    def _take_ghosts(self, poses: wp.array, rays: wp.array) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns what :meth:`_View.take` does, of the ghosts; None where there are none."""
        ghosts = self._ghosts.present(len(poses))
        if ghosts is None:
            return None
        if self._ghost_view is None or self._ghost_view.model is not ghosts.model:
            self._ghost_view = _View(ghosts.model)
        return self._ghost_view.take(ghosts.state, poses, rays)

    def _take_markers(self, camera: CameraCfg, poses: wp.array, rays: wp.array) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns what :meth:`_View.take` does, of the markers that the camera shows; None where there are none."""
        if not (parts := solids(self._markers(camera.markers), len(poses))):
            return None
        if self._marker_model is None or self._marker_view is None or not self._marker_model.fits(parts):
            self._marker_model = MarkerModel(parts, wp.get_device(self._view.model.device))
            self._marker_view = _View(self._marker_model.model)
        self._marker_model.place(parts)
        return self._marker_view.take(self._marker_model.state, poses, rays)


class _View:
    """One model under light, for the ray tracer."""

    def __init__(self, model: newton.Model) -> None:
        self.model = model
        self._sensor = SensorCamera(model)
        self._sensor.create_default_light(direction=wp.normalize(wp.vec3(-0.5, 0.35, -1.0)), color=(0.9, 0.88, 0.84))
        self._sensor.set_ambient_light((0.42, 0.45, 0.52), (0.16, 0.15, 0.14))
        self._sensor.default_render_config = SensorCamera.RenderConfig(
            enable_shadows=True, enable_textures=True, max_distance=200.0
        )
        planes = np.flatnonzero(model.shape_type.numpy() == int(newton.GeoType.PLANE))
        if planes.size:
            self._sensor.assign_checkerboard_material(shape_indices=planes)

    def take(self, state: newton.State, poses: wp.array, rays: wp.array) -> tuple[np.ndarray, np.ndarray]:
        """Returns colours (views, height, width, 3) and distances (views, height, width, 1) [m], 0 where nothing is."""
        shape = (len(poses), rays.shape[1], rays.shape[0])
        color, depth = self._sensor.allocate_image_color(*shape), self._sensor.allocate_image_depth(*shape)
        self.model.bvh_refit_shapes(state)
        self._sensor.update(state, poses, rays, color_image=color, depth_image=depth)
        pixels = color.numpy().view(np.uint8).reshape(*color.shape, 4)[..., :3]
        return pixels, depth.numpy()[..., None]


def _add_atmosphere(pixels: np.ndarray, depth: np.ndarray, elevation: np.ndarray) -> np.ndarray:
    """Puts sky where no shape was hit (depth 0), and haze in front of the rest; returns colours as floats.

    Args:
        pixels: (views, height, width, 3) colours.
        depth: (views, height, width, 1) distance [m].
        elevation: (height, width, 1) sine of the ray's angle above the horizon.
    """
    sky = _HORIZON + (_SKY - _HORIZON) * np.sqrt(np.clip(elevation, 0.0, 1.0))
    haze = 1.0 - np.exp(-np.square(depth / _VISIBILITY))
    hazy = pixels + (_HORIZON - pixels) * haze
    return np.where(depth > 0.0, hazy, sky)


def look_at(eye: tuple[float, float, float], target: tuple[float, float, float]) -> wp.transformf:
    """Returns the pose of a camera at ``eye`` that looks along its -z axis at ``target``, world z upwards.

    Raises:
        ValueError: ``eye`` and ``target`` are the same point.
    """
    backward = np.asarray(eye, dtype=np.float64) - np.asarray(target, dtype=np.float64)
    distance = np.linalg.norm(backward)
    if distance == 0.0:
        raise ValueError(f"camera.eye and camera.target are the same point, {eye}.")
    backward /= distance
    right = np.cross((0.0, 0.0, 1.0), backward)
    if np.linalg.norm(right) < 1e-6:  # straight down or up: the picture's top is world y
        right = np.array((1.0, 0.0, 0.0))
    right /= np.linalg.norm(right)
    up = np.cross(backward, right)
    rotation = wp.quat_from_matrix(wp.mat33(*np.stack((right, up, backward), axis=1).flatten().tolist()))
    return wp.transformf(wp.vec3(*eye), rotation)
