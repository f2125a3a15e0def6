"""The controls of the viewer's page, without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from newton.viewer import ViewerViser

from lab_core.managers import CommandTermCfg
from lab_core.mdp import SettableCommandTerm
from lab_core.names import UnknownNameError
from lab_core.physics import CommandComponent
from lab_core.scene import CameraCfg
from lab_newton.backend import NewtonBackend
from lab_newton.viewer.browser import BrowserViewer
from lab_newton.viewer.command_folder import HandCommand
from lab_newton.viewer.events import PageEvents
from lab_newton.viewer.view_folder import View

CAMERA = CameraCfg(eye=(1.4, 1.4, 1.2), target=(0.0, 0.0, 0.4))


class Drawn(SettableCommandTerm):
    """Draws 0.3 of everything."""

    components = (CommandComponent("x", "m/s", -1.0, 1.0), CommandComponent("y", "m/s", 0.5, 2.0))

    def __init__(self, num_envs: int = 3) -> None:
        env = SimpleNamespace(num_envs=num_envs, device=torch.device("cpu"), generator=torch.Generator())
        super().__init__(CommandTermCfg(resampling_time_range=(1.0, 1.0)), env, num_components=2)
        self.compute(0.1)

    def _resample(self, mask: torch.Tensor) -> None:
        self._command[mask] = 0.3

    def _update_command(self, mask: torch.Tensor) -> None:
        pass

    def update_metrics(self) -> None:
        pass


# Commands by hand --------------------------------------------------------------------------------------------------


def test_the_term_draws_until_somebody_takes_over():
    term = Drawn()
    hand = HandCommand(term)
    assert not hand.by_hand and term.fixed_command is None
    hand.set_value(0, 0.4)
    assert hand.by_hand and term.fixed_command == (0.4, 0.0)
    hand.set_by_hand(False)
    assert term.fixed_command is None and term.command.unique().tolist() == [pytest.approx(0.3)]
    hand.set_by_hand(True)
    assert term.fixed_command == (0.4, 0.0)


def test_bounds_are_those_of_the_draws_with_zero_and_what_is_fixed():
    assert HandCommand(Drawn()).bounds == [(-1.0, 1.0), (0.0, 2.0)]
    term = Drawn()
    term.set_command((3.0, -1.0))
    hand = HandCommand(term)
    assert hand.by_hand and hand.values == [3.0, -1.0] and hand.bounds == [(-1.0, 3.0), (-1.0, 2.0)]


def test_keys_move_in_steps_within_the_bounds_and_stop_at_zero():
    term = Drawn()
    hand = HandCommand(term)
    for _ in range(3):
        hand.nudge(0, 1)
    assert term.fixed_command == (pytest.approx(0.3), 0.0)
    for _ in range(30):
        hand.nudge(0, 1)
    assert term.fixed_command == (1.0, 0.0)
    for _ in range(10):
        hand.nudge(0, -1)
    assert hand.values[0] == 0.0  # no residue of rounding
    hand.set_value(0, 0.03)
    hand.nudge(0, -1)
    assert hand.values[0] == 0.0
    hand.nudge(0, -1)
    assert hand.values[0] == pytest.approx(-0.1)
    hand.set_value(1, 99.0)
    assert term.fixed_command == (pytest.approx(-0.1), 2.0)
    hand.stop()
    assert term.fixed_command == (0.0, 0.0)


# What is drawn -----------------------------------------------------------------------------------------------------


def test_a_followed_robot_is_drawn_in_place_of_the_last_of_the_first():
    view = View(num_worlds=4096, num_drawn=4, robot=1000)
    assert view.worlds == (0, 1, 2, 3)
    view.follows = True
    assert view.worlds == (0, 1, 2, 1000)
    view.robot = 2
    assert view.worlds == (0, 1, 2, 3)
    view.num_drawn, view.robot = 1, 7
    assert view.worlds == (7,)


Boxes = dict[str, np.ndarray]
Page = Callable[..., AbstractContextManager[BrowserViewer]]


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> Boxes:
    """Name of a batch of equal shapes -> (shapes, 3) where they were last drawn [m]."""
    drawn: Boxes = {}
    log_instances = ViewerViser.log_instances

    def keep(self, name, mesh, xforms, *args, hidden=False, **kwargs) -> None:
        drawn.pop(name, None)
        if not hidden and xforms is not None:
            drawn[name] = np.array(xforms.numpy() if hasattr(xforms, "numpy") else xforms)[:, :3]
        log_instances(self, name, mesh, xforms, *args, hidden=hidden, **kwargs)

    monkeypatch.setattr(ViewerViser, "log_instances", keep)
    return drawn


@pytest.fixture
def page(port: int) -> Page:
    """Opens the page of a backend, and closes it after the block."""

    @contextmanager
    def open_page(backend: NewtonBackend, camera: CameraCfg = CAMERA, **kwargs) -> Iterator[BrowserViewer]:
        viewer = backend.open_viewer(camera, port=port, **kwargs)
        try:
            yield viewer
        finally:
            viewer.close()

    return open_page


def robots(boxes: Boxes, count: int) -> np.ndarray:
    """(batches, count, 3) where the parts of so many robots were drawn [m]."""
    parts = [positions for positions in boxes.values() if len(positions) == count]
    assert parts
    return np.stack(parts)


def move(backend: NewtonBackend, robot: int, by: tuple[float, float, float]) -> None:
    mask = torch.zeros(backend.num_envs, dtype=torch.bool, device=backend.device)
    mask[robot] = True
    pose = backend.entities["robot"].root_link_pose_w
    pose[robot, :3] += torch.tensor(by, device=backend.device)
    backend.mark_written(mask)
    backend.forward()


def test_only_the_worlds_of_the_view_are_drawn(rover, page, boxes):
    with page(rover) as viewer:
        everything = sum(map(len, boxes.values()))
        viewer._view._set_num_drawn(1)
        viewer.update()
        parts = robots(boxes, 1)
        assert sum(map(len, boxes.values())) == len(parts)
        ground = 1
        assert everything - ground == 3 * (len(parts) - ground)


def test_of_many_worlds_sixteen_are_drawn_at_first(make_rover, page, boxes):
    many = make_rover(num_envs=18)
    with page(many) as viewer:
        assert {len(positions) for positions in boxes.values()} == {1, 16}  # the ground, and parts of robots
        viewer._view._set_follows(True)
        viewer._view.set_robot(99)
        viewer.update()
        assert viewer._view.view.worlds == (*range(15), 17)
        assert {len(positions) for positions in boxes.values()} == {1, 16}
    many.close()


def test_a_followed_robot_stays_in_its_place_and_the_rest_moves_past(rover, page, boxes):
    follow = CameraCfg(eye=CAMERA.eye, target=CAMERA.target, follow="robot")
    with page(rover, follow) as viewer:
        robot = viewer._view.view.robot
        viewer.update()
        before = robots(boxes, 3).copy()
        move(rover, robot, (1.0, -2.0, 0.5))
        viewer.update()
        after = robots(boxes, 3).copy()
        others = [world for world in range(3) if world != robot]
        np.testing.assert_allclose(after[:, robot], before[:, robot], atol=1e-5)
        passing = (after - before)[:, others]
        np.testing.assert_allclose(passing, np.broadcast_to([-1.0, 2.0, -0.5], passing.shape), atol=1e-5)

        viewer._view._set_follows(False)  # the scene stays where it is, and the robot walks off
        move(rover, robot, (1.0, 0.0, 0.0))
        viewer.update()
        np.testing.assert_allclose(robots(boxes, 3)[:, others], after[:, others], atol=1e-5)
        np.testing.assert_allclose((robots(boxes, 3) - after)[:, robot, 0], 1.0, atol=1e-5)

        viewer._view._set_follows(True)
        viewer._view.set_robot(others[0])  # takes the place of the one before
        viewer.update()
        np.testing.assert_allclose(robots(boxes, 3)[:, others[0]], before[:, robot], atol=1e-5)


@pytest.mark.parametrize("follow", [None, "robot"])
def test_the_page_shows_what_was_written_before_the_engine_takes_it_over(rover, page, boxes, follow):
    with page(rover, CameraCfg(eye=CAMERA.eye, target=CAMERA.target, follow=follow)) as viewer:
        rover.entities["robot"].root_link_pose_w[:, 0] += torch.tensor([1.0, 2.0, 3.0], device=rover.device)
        rover.mark_written(torch.ones_like(rover.written))
        viewer.update()
        written = robots(boxes, 3).copy()
        rover.forward()
        viewer.update()
        np.testing.assert_array_equal(written, robots(boxes, 3))


def test_a_camera_that_follows_nothing_lets_robots_walk_off(rover, page, boxes):
    with page(rover) as viewer:
        before = robots(boxes, 3).copy()
        move(rover, 0, (1.0, 0.0, 0.0))
        viewer.update()
        moved = robots(boxes, 3) - before
        np.testing.assert_allclose(moved[:, 0, 0], 1.0, atol=1e-5)
        np.testing.assert_allclose(moved[:, 1:], 0.0, atol=1e-5)


def test_an_unknown_entity_to_follow_is_named(rover, port):
    with pytest.raises(UnknownNameError, match="unknown entity 'dog'.*robot"):
        rover.open_viewer(CameraCfg(follow="dog"), port=port)


# From the page to the simulation -----------------------------------------------------------------------------------


class Handle:
    """A control of the page whose callbacks a test calls."""

    def __init__(self) -> None:
        self.on_update = self.on_click = self.on_trigger = self._register

    def _register(self, callback: Callable) -> None:
        self._callback = callback

    def send(self, value: object = None, client_id: int | None = 0) -> None:
        event = SimpleNamespace(client_id=client_id, target=SimpleNamespace(value=value))
        asyncio.run(self._callback(event))


def test_what_people_do_waits_in_order_for_the_simulation():
    events, done = PageEvents(), []
    slider, button, key = Handle(), Handle(), Handle()
    events.on_input(slider, lambda value: done.append(value))
    events.on_click(button, lambda: done.append("click"))
    events.on_key(key, lambda: done.append("key"))
    slider.send(0.1)
    button.send()
    slider.send(0.2)
    key.send()
    assert done == []
    events.run()
    assert done == [0.1, "click", 0.2, "key"]
    events.run()
    assert len(done) == 4


def test_values_that_the_program_sets_are_no_wishes():
    events, done = PageEvents(), []
    slider = Handle()
    events.on_input(slider, done.append)
    slider.send(0.1, client_id=None)
    events.run()
    assert done == []


def test_page_shows_the_command_that_its_robot_follows(rover, page):
    term = Drawn()
    with page(rover, commands={"speed": term}) as viewer:
        (folder,) = viewer._commands
        folder._press(lambda: folder._command.nudge(0, 1))
        assert folder._by_hand.value is True and folder._sliders[0].value == pytest.approx(0.1)
        folder._slide(1, 1.5)
        assert term.fixed_command == (pytest.approx(0.1), 1.5)
        folder.show_asked(2)
        assert folder._asked.content == "Robot 2 follows 0.10, 1.50"
        viewer.update("slow")
        assert viewer._status.content == "slow"
