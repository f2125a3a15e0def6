"""Markers in pictures and on the page, and nowhere in the physics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import newton
import numpy as np
import pytest
import torch

from lab_core.markers import ArrowMarkers, FrameMarkers, Markers, PoseMarkers, SphereMarkers
from lab_core.names import UnknownNameError
from lab_core.scene import CameraCfg
from lab_newton.backend import NewtonBackend
from lab_newton.viewer.markers import solids

CAMERA = CameraCfg(eye=(2.4, 2.4, 1.4), target=(0.0, 0.0, 0.5), width=160, height=120, markers=("mine",))
YELLOW = (1.0, 1.0, 0.0)
IDENTITY = (0.0, 0.0, 0.0, 1.0)


@pytest.fixture
def marked(rover: NewtonBackend) -> Iterator[NewtonBackend]:
    yield rover
    rover.marker_sources.clear()


class Source:
    """Draws the same markers each time."""

    def __init__(self, *markers: Markers) -> None:
        self.markers = markers
        self.asked = 0

    def __call__(self) -> Sequence[Markers]:
        self.asked += 1
        return self.markers


def everywhere(*places: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(places).expand(3, -1, -1).clone()


def yellow(picture: np.ndarray) -> np.ndarray:
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (np.minimum(red, green) > blue + 60) & (abs(red - green) < 30)


def middle(found: np.ndarray) -> np.ndarray:
    """Mean row and column."""
    return np.argwhere(found).mean(axis=0)


# Shapes ------------------------------------------------------------------------------------------------------------


def by_shape(markers: Markers) -> dict[newton.GeoType, tuple[np.ndarray, np.ndarray]]:
    """Shape -> poses (M, 7) and scales (M, 3) in the first environment."""
    return {part.shape: (part.pose_w[0], part.scale[0]) for part in solids([markers], 1)}


@pytest.mark.parametrize("vector", [(0.0, 0.0, 0.5), (0.0, 0.0, -0.5), (0.3, -0.4, 0.0), (-0.2, 0.1, 0.4)])
def test_an_arrow_goes_from_its_start_to_its_tip(vector: tuple[float, float, float]) -> None:
    start = (1.0, 2.0, 3.0)
    parts = by_shape(ArrowMarkers(start_w=everywhere(start), vector_w=everywhere(vector), radius=0.01))
    ends = {}
    for shape, (pose, scale) in parts.items():
        rotation = np.array(newton_rotation(pose[0, 3:]))
        along = rotation @ (0.0, 0.0, scale[0, 2])
        ends[shape] = (pose[0, :3] - along, pose[0, :3] + along)
    np.testing.assert_allclose(ends[newton.GeoType.CYLINDER][0], start, atol=1e-5)
    np.testing.assert_allclose(ends[newton.GeoType.CYLINDER][1], ends[newton.GeoType.CONE][0], atol=1e-5)
    np.testing.assert_allclose(ends[newton.GeoType.CONE][1], np.add(start, vector), atol=1e-5)
    assert parts[newton.GeoType.CONE][1][0, 0] > parts[newton.GeoType.CYLINDER][1][0, 0]


def newton_rotation(quat: np.ndarray) -> list[list[float]]:
    x, y, z, w = (float(value) for value in quat)
    return [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]


def test_a_frame_has_its_axes_where_they_point() -> None:
    half = math.sqrt(0.5)
    frame = FrameMarkers(pose_w=everywhere((1.0, 0.0, 0.0, 0.0, 0.0, half, half)), length=0.4)  # turned left by 90 deg
    pose, _ = by_shape(frame)[newton.GeoType.CYLINDER]
    np.testing.assert_allclose(pose[:, :3], [(1.0, 0.2, 0.0), (0.8, 0.0, 0.0), (1.0, 0.0, 0.2)], atol=1e-6)


def test_what_is_not_finite_or_too_short_has_no_size() -> None:
    places = everywhere((0.0, 0.0, 1.0), (math.inf, 0.0, 0.0), (0.0, math.nan, 0.0))
    _, scale = by_shape(SphereMarkers(center_w=places, radius=0.1))[newton.GeoType.SPHERE]
    assert scale[:, 0].tolist() == pytest.approx([0.1, 0.0, 0.0])
    vectors = everywhere((0.0, 0.0, 0.0), (0.01, 0.0, 0.0), (1.0, 0.0, 0.0))
    for _, scale in by_shape(ArrowMarkers(start_w=0.0 * vectors, vector_w=vectors, radius=0.01)).values():
        assert (scale[:, 2] > 0.0).tolist() == [False, False, True]


# In pictures -------------------------------------------------------------------------------------------------------


def test_every_kind_is_drawn_where_it_is(marked: NewtonBackend) -> None:
    assert not yellow(marked.render(replace(CAMERA, markers=()))).any()
    above, left = (0.0, 0.0, 1.2), (0.8, -0.8, 0.5)  # left of the robot, as this camera sees it
    drawn = {}
    for name, place in (("above", above), ("left", left)):
        spheres = SphereMarkers(center_w=everywhere(place), radius=0.1, color=YELLOW)
        boxes = PoseMarkers(pose_w=everywhere((*place, *IDENTITY)), size=(0.2, 0.2, 0.2), color=YELLOW)
        arrows = ArrowMarkers(
            start_w=everywhere(place) - 0.1, vector_w=everywhere((0.2, 0.2, 0.2)), color=YELLOW, radius=0.04
        )
        for markers in (spheres, boxes, arrows):
            marked.marker_sources["mine"] = Source(markers)
            drawn[name, type(markers)] = yellow(marked.render(CAMERA))
    for kind in (SphereMarkers, PoseMarkers, ArrowMarkers):
        assert drawn["above", kind].sum() > 20 and drawn["left", kind].sum() > 20
        row, column = middle(drawn["above", kind]) - (60, 80)
        assert row < -25 and abs(column) < 6, kind
        row, column = middle(drawn["left", kind]) - (60, 80)
        assert abs(row) < 12 and column < -25, kind


def test_an_arrow_points_to_where_its_head_is(marked: NewtonBackend) -> None:
    marked.marker_sources["mine"] = Source(
        ArrowMarkers(start_w=everywhere((0.0, 0.0, 0.9)), vector_w=everywhere((0, 0, 0.5)), color=YELLOW, radius=0.05)
    )
    widths = yellow(marked.render(CAMERA)).sum(axis=1)
    rows = np.flatnonzero(widths)
    shaft, widest = np.median(widths[rows]), rows[np.argmax(widths[rows])]
    assert widths.max() > 1.4 * shaft and widest - rows[0] > 4, "a head, and its tip at the top"
    assert widths[rows[0]] < 0.6 * widths.max()


def test_each_tile_shows_the_markers_of_its_environment_and_more_may_come(marked: NewtonBackend) -> None:
    places = everywhere((0.0, 0.0, 1.0))
    places[[0, 2]] = math.nan
    source = marked.marker_sources["mine"] = Source(SphereMarkers(center_w=places, radius=0.15, color=YELLOW))

    def tiles() -> list[int]:
        picture = marked.render(replace(CAMERA, num_envs=3))
        return [yellow(picture[row : row + 60, column : column + 80]).sum() for row in (0, 60) for column in (0, 80)]

    assert tiles()[1] > 10 and sum(tiles()) == tiles()[1]
    source.markers = (SphereMarkers(center_w=everywhere((0.0, 0.0, 1.0), (0.0, 0.0, 1.3)), radius=0.15, color=YELLOW),)
    assert min(tiles()[:3]) > 20
    source.markers = ()
    assert sum(tiles()) == 0


def test_the_robot_hides_what_is_behind_it(marked: NewtonBackend) -> None:
    bare = marked.render(replace(CAMERA, markers=()))
    red, green, blue = np.moveaxis(bare.astype(int), -1, 0)
    robot = (green > red + 30) & (green > blue + 20)
    marked.marker_sources["mine"] = Source(
        SphereMarkers(center_w=everywhere((-0.6, -0.6, 0.275)), radius=0.25, color=YELLOW)
    )
    behind = marked.render(CAMERA)
    np.testing.assert_array_equal(behind[robot], bare[robot])
    assert yellow(behind).sum() > 20
    below = SphereMarkers(center_w=everywhere((0.0, 0.0, -0.5)), radius=0.2, color=YELLOW)
    marked.marker_sources["mine"] = Source(below)
    np.testing.assert_array_equal(marked.render(CAMERA), bare, err_msg="below the ground")


def test_only_what_is_looked_at_is_asked_and_the_physics_stays_bitwise_as_it_is(marked, assert_same) -> None:
    start, ends = marked.state_dict(), []
    mine, other = Source(SphereMarkers(center_w=everywhere((0.0, 0.0, 1.0)))), Source()
    marked.marker_sources |= {"mine": mine, "other": other}
    for looks in (False, True):
        marked.load_state_dict(start)
        for _ in range(3):
            marked.step(4)
            if looks:
                marked.render(CAMERA)
        ends.append(marked.state_dict())
        assert mine.asked == (3 if looks else 0)
    assert other.asked == 0
    assert_same(*ends)


def test_markers_that_there_are_not_are_refused(marked: NewtonBackend) -> None:
    marked.marker_sources["mine"] = Source()
    with pytest.raises(UnknownNameError, match="unknown markers 'min'.*mine"):
        marked.render(replace(CAMERA, markers=("min",)))


# On the page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("follow", [None, "robot"])
def test_the_page_draws_markers_with_their_robots_and_has_a_switch_for_each(marked, port: int, follow) -> None:
    data = marked.entities["robot"]
    mine = Source(SphereMarkers(center_w=data.root_link_pose_w[:, None, :3] + 1.0, radius=0.2))
    other = Source(PoseMarkers(pose_w=everywhere((0.0, 0.0, 0.0, *IDENTITY)), size=(1.0, 1.0, 1.0)))
    marked.marker_sources |= {"mine": mine, "other": other}
    viewer = marked.open_viewer(replace(CAMERA, follow=follow), port=port)
    try:
        viewer._view._set_num_drawn(2)
        viewer.update()
        handles = viewer._viewer._scene_handles
        spheres = handles["/layers/markers/markers/sphere"]
        assert spheres.batched_scales.tolist() == [[pytest.approx(0.2)] * 3] * 2
        step = np.subtract(*viewer._grid()[list(viewer._worlds)][::-1])
        np.testing.assert_allclose(np.subtract(*spheres.batched_positions[::-1]), step, atol=1e-5)
        assert "/layers/markers/markers/box" not in handles and other.asked == 0

        viewer._markers._set_shown("other", True)
        viewer._markers._set_shown("mine", False)
        asked = mine.asked
        viewer.update()
        assert not handles["/layers/markers/markers/sphere"].visible
        assert handles["/layers/markers/markers/box"].visible and mine.asked == asked
    finally:
        viewer.close()
