"""One robot from its file, without a task: what was built, a picture, a page with a slider for each joint."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial

import newton
import numpy as np
import torch

from lab_core.markers import FrameMarkers, Markers
from lab_core.math import quat_apply
from lab_core.names import match_names
from lab_core.registry import backend_class
from lab_core.scene import ActuatorCfg, ArticulationCfg, ArticulationData, CameraCfg, SceneCfg
from lab_newton.arrays import present
from lab_newton.config import NewtonCfg
from lab_newton.robot_files import UNLIMITED, followers_in, joint_of
from lab_newton.viewer.browser import BrowserViewer
from lab_newton.viewer.events import PageEvents

_ROBOT = "robot"
_VISIBLE = int(newton.ShapeFlags.VISIBLE)
_MARGIN = 1.1
"""Distance of the camera, as a multiple of that from which the robot just fits."""


class ModelFile:
    """Builds the file as a task would, alone in its world, and moves nothing but by :meth:`set_joint`."""

    def __init__(
        self,
        file: str,
        joint_pos: Mapping[str, float] | None = None,
        package_folders: Sequence[str] = (),
        fixed_base: bool | None = None,
        actuators: Mapping[str, ActuatorCfg] | None = None,
    ) -> None:
        """Builds it.

        Args:
            file: MJCF, URDF or USD.
            joint_pos: Joint name or regular expression -> position [rad or m]; the others are at their default.
            package_folders: See :attr:`~lab_core.scene.ArticulationCfg.package_folders`.
            fixed_base: See :attr:`~lab_core.scene.ArticulationCfg.fixed_base`.
            actuators: What drives the joints, by group; nothing by default.

        Raises:
            ConfigError: the file cannot be simulated as it stands; the message says where.
            UnknownNameError: there is no such joint.
        """
        cfg = ArticulationCfg(
            asset=file, actuators=dict(actuators or {}), package_folders=tuple(package_folders), fixed_base=fixed_base
        )
        scene = SceneCfg(ground=None, entities={_ROBOT: cfg})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Nothing is to drive it here.
            warnings.filterwarnings("ignore", message=".* nothing drives .*")
            self._backend = backend_class("newton")(NewtonCfg(dt=0.002), scene, 1, torch.device("cpu"))
        self._warnings = [str(warning.message) for warning in caught]
        self._show_bare_bodies()
        data = self._backend.entities[_ROBOT]
        assert isinstance(data, ArticulationData)
        self.data = data
        """State and properties of the robot, in one environment."""
        self._file = file
        self._backend.marker_sources["frames"] = self._frames
        self._backend.write_default_state(self._here)
        for pattern, position in (joint_pos or {}).items():
            for joint in match_names(pattern, data.joint_names, what=f"joint of {file}"):
                self.set_joint(joint, position)

    @property
    def _here(self) -> torch.Tensor:
        return torch.ones(1, dtype=torch.bool)

    def set_joint(self, joint: int, position: float) -> None:
        """Puts a joint to a position [rad or m]; those that follow it come along."""
        self.data.joint_pos[0, joint] = position
        self._backend.mark_written(self._here)

    def joint_range(self, joint: int) -> tuple[float, float]:
        """Returns the limits of a joint; half a turn or metre each way where it has none [rad or m]."""
        low, high = self.data.joint_pos_limits[0, joint].tolist()
        bound = math.pi if self.kinds()[joint] == "hinge" else 0.5
        return (low if low > -UNLIMITED else -bound), (high if high < UNLIMITED else bound)

    def kinds(self) -> tuple[str, ...]:
        """Returns ``"hinge"`` or ``"slide"`` for each joint."""
        return self._backend.joint_kinds(_ROBOT)

    @property
    def floats(self) -> bool:
        """Whether the root moves freely."""
        return self._backend.imported(_ROBOT).layout.floating

    def free_joints(self) -> list[str]:
        """Returns the joints that follow no other one."""
        following = {follower for follower, _, _ in followers_in(self._backend.imported(_ROBOT))}
        return [name for name in self.data.joint_names if name not in following]

    def joints_of_file_actuators(self) -> list[str]:
        """Returns the joints that actuators of the file drive."""
        imported = self._backend.imported(_ROBOT)
        driven = set() if imported.file is None else {joint_of(imported, i) for i in range(imported.file.model.nu)}
        return [name for name in self.data.joint_names if name in driven]

    def report(self) -> str:
        """Returns what was built: bodies with masses, joints with limits, shapes, and what differs from the file."""
        data, model = self.data, self._backend.model
        collides = self._colliding(model)
        masses = data.body_mass[0].tolist()
        lines = [
            f"{self._file}: {data.num_bodies} bodies, {len(data.joint_names)} joints, {sum(masses):.4g} kg, "
            f"{model.shape_count} shapes, {int(collides.sum())} of them collide",
            "",
            *_table(("body", "mass [kg]", "colliding shapes"), self._bodies(masses, collides)),
            "",
            *_table(("joint", "kind", "lower", "upper", "default"), self._joints()),
            "",
            *(str(report) for report in self._backend.file_reports),
            *(f"warning: {warning}" for warning in self._warnings),
        ]
        return "\n".join(lines).rstrip()

    def render(self, width: int, height: int, collision: bool = False) -> np.ndarray:
        """Returns a uint8 RGB picture (height, width, 3) of what is drawn, or of what collides."""
        camera = self._camera()
        camera.width, camera.height = width, height
        if collision:
            self._draw(self._colliding(self._backend.model))
        return self._backend.render(camera)

    def open_page(self, port: int) -> BrowserViewer:
        """Serves a page on ``port`` of this machine, or on the next free one, until :meth:`close`."""
        page = self._backend.open_viewer(self._camera(), port=port)
        JointFolder(page, self)
        with page.gui.add_folder("Report", order=0.5, expand_by_default=False):
            page.gui.add_markdown(f"```\n{self.report()}\n```")
        return page

    def close(self) -> None:
        """Closes pages; safe to call twice."""
        self._backend.close()

    def _frames(self) -> Sequence[Markers]:
        low, high = self.bounds()
        length = 0.1 * max(float(np.linalg.norm(high - low)), 0.1)
        return [FrameMarkers(pose_w=self.data.body_link_pose_w, length=length, radius=0.05 * length)]

    def _bodies(self, masses: Sequence[float], collides: np.ndarray) -> list[list[str]]:
        owners = present(self._backend.model.shape_body).numpy()
        counts = [int((collides & (owners == body)).sum()) for body in range(self.data.num_bodies)]
        return [
            [name, f"{mass:.4g}", str(count)]
            for name, mass, count in zip(self.data.body_names, masses, counts, strict=True)
        ]

    def _joints(self) -> list[list[str]]:
        limits = self.data.joint_pos_limits[0].tolist()
        default = self.data.default_joint_pos[0].tolist()
        return [
            [name, kind, *("none" if abs(bound) >= UNLIMITED else f"{bound:.4g}" for bound in bounds), f"{start:.4g}"]
            for name, kind, bounds, start in zip(self.data.joint_names, self.kinds(), limits, default, strict=True)
        ]

    def _camera(self) -> CameraCfg:
        """Returns a camera that has the whole robot in its picture."""
        low, high = self.bounds()
        middle = 0.5 * (low + high)
        cfg = CameraCfg(markers=() if self._backend.model.shape_count else ("frames",))  # else nothing could be seen
        radius = 0.5 * max(float(np.linalg.norm(high - low)), 0.05)
        distance = _MARGIN * radius / math.tan(math.radians(0.5 * cfg.fov))
        eye = middle + distance * np.array((0.7, -0.6, 0.4))
        x, y, z = middle.tolist()
        cfg.target, cfg.eye = (x, y, z), (float(eye[0]), float(eye[1]), float(eye[2]))
        return cfg

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the lowest and highest coordinates of the shapes' bounding spheres (3,) [m]."""
        self._backend.forward()
        model = self._backend.model
        radius = present(model.shape_collision_radius).numpy()
        owners = present(model.shape_body).numpy()
        poses = self.data.body_link_pose_w[0]
        own = owners >= 0
        if not own.any():
            return poses[:, :3].amin(dim=0).numpy() - 0.1, poses[:, :3].amax(dim=0).numpy() + 0.1
        local = torch.from_numpy(present(model.shape_transform).numpy()[own, :3])
        bodies = poses[torch.from_numpy(owners[own])]
        centers = (bodies[:, :3] + quat_apply(bodies[:, 3:], local)).numpy()
        reach = radius[own, None]
        return (centers - reach).min(axis=0), (centers + reach).max(axis=0)

    @staticmethod
    def _colliding(model: newton.Model) -> np.ndarray:
        """Returns (S,) bool, the shapes that collide."""
        flags = present(model.shape_flags).numpy()
        return (flags & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0

    def _show_bare_bodies(self) -> None:
        """Draws what collides of bodies of which nothing is drawn; Newton hides it as soon as any body has a visual."""
        model = self._backend.model
        owners, flags = present(model.shape_body).numpy(), present(model.shape_flags).numpy()
        seen = (flags & _VISIBLE) != 0
        self._draw(seen | (self._colliding(model) & ~np.isin(owners, owners[seen])))

    def _draw(self, shapes: np.ndarray) -> None:
        """Draws ``shapes`` (S,) bool and no others, from now on."""
        model = self._backend.model
        flags = present(model.shape_flags).numpy() & ~_VISIBLE
        present(model.shape_flags).assign(np.where(shapes, flags | _VISIBLE, flags))
        if model.shape_count:
            model.bvh_build_shapes(model.state())


class JointFolder:
    """A slider for each joint."""

    def __init__(self, page: BrowserViewer, model: ModelFile) -> None:
        """Adds it to the page."""
        events: PageEvents = page.events
        with page.gui.add_folder("Joints", order=0.3):
            self.sliders = [
                page.gui.add_slider(name, low, high, step=(high - low) / 200, initial_value=min(max(at, low), high))
                for name, at, (low, high) in (
                    (name, float(model.data.joint_pos[0, joint]), model.joint_range(joint))
                    for joint, name in enumerate(model.data.joint_names)
                )
                if high > low
            ]
        for slider in self.sliders:
            events.on_input(slider, partial(model.set_joint, model.data.joint_names.index(str(slider.label))))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (columns, *rows))
    return [line.rstrip() for line in lines]
