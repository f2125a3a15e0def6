"""Ghosts in pictures and on the page, and nowhere in the physics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from newton.viewer import ViewerViser

from lab_core.errors import LabError
from lab_core.physics import Ghost
from lab_core.scene import CameraCfg
from lab_newton.backend import NewtonBackend

CAMERA = CameraCfg(eye=(2.4, 2.4, 1.4), target=(0.0, 0.0, 0.5), width=160, height=120)


class Double:
    """A ghost of each rover, away from it."""

    def __init__(self, backend: NewtonBackend, by: tuple[float, float, float]) -> None:
        self.data = backend.entities["robot"]
        self.by = torch.tensor(by, device=backend.device)
        self.asked = 0
        self.there = True

    def __call__(self) -> list[Ghost]:
        self.asked += 1
        if not self.there:
            return []
        pose = self.data.root_link_pose_w.clone()
        pose[:, :3] += self.by
        return [Ghost(entity="robot", root_pose_w=pose, joint_pos=self.data.joint_pos + 0.3)]


@pytest.fixture
def haunted(rover: NewtonBackend) -> Iterator[NewtonBackend]:
    yield rover
    rover.ghost_sources.clear()


def pink(picture: np.ndarray) -> np.ndarray:
    """Pixels of ghosts, and of nothing else in the scene."""
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (red > green + 15) & (blue > green + 5)


def green(picture: np.ndarray) -> np.ndarray:
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (green > red + 30) & (green > blue + 20)


def test_a_ghost_beside_the_robot_shines_through_and_changes_nothing_else(haunted: NewtonBackend) -> None:
    bare = haunted.render(CAMERA)
    assert not pink(bare).any()
    haunted.ghost_sources.append(Double(haunted, (-0.8, 0.8, 0.2)))
    picture = haunted.render(CAMERA)
    ghost = pink(picture)
    assert ghost.sum() > 50
    assert green(picture).sum() > 0.7 * green(bare).sum(), "the robot is there, too"
    columns = np.nonzero(ghost)[1].mean() - np.nonzero(green(bare))[1].mean()
    assert abs(columns) > 20, "beside it"
    changed = np.abs(picture.astype(int) - bare).max(axis=-1) > 2
    assert changed.sum() < 2 * ghost.sum(), "no shadow, and no other part of the picture"


def test_what_is_in_front_of_a_ghost_hides_it(haunted: NewtonBackend) -> None:
    bare, towards_camera = haunted.render(CAMERA), np.array((2.4, 2.4, 0.9)) / 3.5
    haunted.ghost_sources.append(double := Double(haunted, tuple(0.8 * towards_camera)))
    in_front = pink(haunted.render(CAMERA)).sum()
    double.by = -double.by
    behind = haunted.render(CAMERA)
    np.testing.assert_array_equal(behind[green(bare)], bare[green(bare)])
    assert pink(behind).sum() < 0.3 * in_front
    double.by[:] = torch.tensor((-0.5, 0.5, -1.4))
    np.testing.assert_array_equal(haunted.render(CAMERA), bare, err_msg="below the ground")


def test_each_tile_shows_the_ghost_of_its_environment(haunted: NewtonBackend) -> None:
    class OnlyTheSecond(Double):
        def __call__(self) -> list[Ghost]:
            (ghost,) = super().__call__()
            ghost.root_pose_w[[0, 2], 2] -= 5.0
            return [ghost]

    haunted.ghost_sources.append(OnlyTheSecond(haunted, (0.0, 0.6, 0.4)))
    picture = haunted.render(replace(CAMERA, num_envs=3))
    tiles = [pink(picture[row : row + 60, column : column + 80]).sum() for row in (0, 60) for column in (0, 80)]
    assert tiles[1] > 20 and tiles[0] == tiles[2] == tiles[3] == 0


def test_ghosts_leave_the_physics_bitwise_as_it_is_and_wait_for_somebody_to_look(haunted, assert_same) -> None:
    start, ends = haunted.state_dict(), []
    fingerprint = haunted.fingerprint()
    double = Double(haunted, (0.5, 0.0, 0.0))
    for looks in (False, True):
        haunted.load_state_dict(start)
        haunted.ghost_sources[:] = [double]
        for _ in range(3):
            haunted.step(4)
            if looks:
                haunted.render(CAMERA)
        ends.append(haunted.state_dict())
        assert double.asked == (3 if looks else 0)
    assert_same(*ends)
    assert haunted.fingerprint() == fingerprint


def test_ghosts_may_come_and_go(haunted: NewtonBackend) -> None:
    bare = haunted.render(CAMERA)
    haunted.ghost_sources.append(double := Double(haunted, (-0.8, 0.8, 0.2)))
    one = pink(haunted.render(CAMERA)).sum()
    haunted.ghost_sources.append(Double(haunted, (0.8, -0.8, 0.2)))
    assert pink(haunted.render(CAMERA)).sum() > 1.5 * one
    haunted.ghost_sources[:] = [double]
    assert pink(haunted.render(CAMERA)).sum() == one
    double.there = False
    np.testing.assert_array_equal(haunted.render(CAMERA), bare)


def test_ghosts_of_nothing_are_refused(haunted: NewtonBackend) -> None:
    haunted.ghost_sources.append(lambda: [replace(Double(haunted, (0.0, 0.0, 0.0))()[0], entity="dog")])
    with pytest.raises(LabError, match="unknown entity 'dog'"):
        haunted.render(CAMERA)


# On the page -------------------------------------------------------------------------------------------------------


Batches = dict[str, tuple[np.ndarray, np.ndarray]]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Batches:
    """Name of a batch of equal shapes -> where they were last drawn (shapes, 3) [m], and their opacities (shapes,)."""
    batches: Batches = {}
    log_instances = ViewerViser.log_instances

    def keep(self, name, mesh, xforms, *args, opacities=None, hidden=False, **kwargs) -> None:
        _, known = batches.pop(name, (None, None))
        if not hidden and xforms is not None:
            batches[name] = (_numbers(xforms)[:, :3], known if opacities is None else _numbers(opacities))
        log_instances(self, name, mesh, xforms, *args, opacities=opacities, hidden=hidden, **kwargs)

    monkeypatch.setattr(ViewerViser, "log_instances", keep)
    return batches


def _numbers(array: Any) -> np.ndarray:
    return np.array(array.numpy() if hasattr(array, "numpy") else array)


def layer(drawn: Batches, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [batch for path, batch in drawn.items() if path.startswith(f"/layers/{name}/")]


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("follow", [None, "robot"])
def test_the_page_draws_ghosts_in_a_translucent_layer(haunted: NewtonBackend, port: int, drawn, follow) -> None:
    by = np.array((0.5, -0.25, 1.0))
    haunted.ghost_sources.append(double := Double(haunted, tuple(by)))
    viewer = haunted.open_viewer(replace(CAMERA, follow=follow), port=port)
    try:
        haunted.entities["robot"].root_link_pose_w[:, 0] += 0.4
        haunted.mark_written(torch.ones_like(haunted.written))
        viewer._view._set_num_drawn(2)
        viewer.update()
        ghosts, robots = layer(drawn, "ghosts"), layer(drawn, "scene")
        assert ghosts and {len(places) for places, _ in ghosts} == {2}
        assert {opacity for _, opacities in ghosts for opacity in opacities} == {0.5}
        assert {opacity for _, opacities in robots for opacity in opacities} == {1.0}
        beside = [
            np.allclose(ghost - robot, by, atol=1e-5)
            for ghost, _ in ghosts
            for robot, _ in robots
            if robot.shape == ghost.shape
        ]
        assert any(beside), "the hull of each ghost is beside that of its robot, at the same place of the grid"

        double.there = False
        viewer.update()
        assert not any(path.startswith("/layers/ghosts/") for path in viewer._viewer._instances)
        assert layer(drawn, "scene")
        double.there = True
        viewer.update()
        assert len(layer(drawn, "ghosts")) == len(ghosts)
    finally:
        viewer.close()
