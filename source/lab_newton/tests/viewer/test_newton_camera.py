"""Pictures of the scene."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp

from lab_core.scene import CameraCfg
from lab_newton.viewer.camera import look_at

CAMERA = CameraCfg(eye=(1.4, 1.4, 0.9), target=(0.0, 0.0, 0.4), width=160, height=120)


def green(picture: np.ndarray) -> np.ndarray:
    """Pixels of the rover's green hull."""
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (green > red + 30) & (green > blue + 20)


def test_the_camera_looks_at_its_target_with_the_horizon_level():
    pose = look_at((1.0, 2.0, 3.0), (-1.0, 0.5, 0.2))
    rotation = wp.transform_get_rotation(pose)
    forward = np.array(wp.quat_rotate(rotation, wp.vec3(0.0, 0.0, -1.0)))
    expected = np.array((-2.0, -1.5, -2.8))
    np.testing.assert_allclose(forward, expected / np.linalg.norm(expected), atol=1e-6)
    assert wp.quat_rotate(rotation, wp.vec3(1.0, 0.0, 0.0))[2] == pytest.approx(0.0, abs=1e-6)
    assert wp.quat_rotate(rotation, wp.vec3(0.0, 1.0, 0.0))[2] > 0.0


def test_the_camera_may_look_straight_down():
    rotation = wp.transform_get_rotation(look_at((0.0, 0.0, 5.0), (0.0, 0.0, 0.0)))
    np.testing.assert_allclose(np.array(wp.quat_rotate(rotation, wp.vec3(0.0, 0.0, -1.0))), (0, 0, -1), atol=1e-6)


def test_a_camera_in_its_target_is_refused():
    with pytest.raises(ValueError, match="same point"):
        look_at((1.0, 0.0, 0.0), (1.0, 0.0, 0.0))


def test_the_picture_shows_robot_sky_and_ground(rover):
    picture = rover.render(CAMERA)
    assert picture.shape == (120, 160, 3) and picture.dtype == np.uint8
    robot = green(picture)
    assert 50 < robot.sum() < 5000
    assert robot[40:100, 50:110].sum() > 0.8 * robot.sum(), "the robot is in the middle"
    sky, ground = picture[2, 2].astype(int), picture[-10:].astype(int)
    assert sky[2] > sky[0] + 10, "blue above"
    assert ground.std(axis=(0, 1)).min() > 5, "a pattern below"


def test_the_picture_follows_the_state_and_does_not_change_it(rover):
    first = rover.render(CAMERA)
    assert np.array_equal(first, rover.render(CAMERA))
    before = rover.state_dict()
    rover.render(CAMERA)
    assert all(torch.equal(before[name], value) for name, value in rover.state_dict().items())
    rover.step(40)
    assert np.abs(first.astype(int) - rover.render(CAMERA)).max() > 50


@pytest.mark.parametrize("follow", [None, "robot"])
def test_the_picture_shows_what_was_written_before_the_engine_takes_it_over(rover, follow):
    camera = CameraCfg(**(vars(CAMERA) | {"follow": follow}))
    data, everywhere = rover.entities["robot"], torch.ones_like(rover.written)
    data.root_link_pose_w[:, 0] += 0.4
    data.joint_pos[:, 0] += 0.5
    rover.mark_written(everywhere)
    before = rover.state_dict()
    written = rover.render(camera)
    assert all(torch.equal(before[name], value) for name, value in rover.state_dict().items())
    rover.forward()
    np.testing.assert_array_equal(written, rover.render(camera))


def test_looking_at_what_was_written_leaves_the_next_step_as_it_is(rover, assert_same):
    start, ends = rover.state_dict(), []
    for look in (False, True):
        rover.load_state_dict(start)
        rover.entities["robot"].joint_pos[:, 0] += 0.5
        rover.mark_written(torch.ones_like(rover.written))
        if look:
            rover.render(CAMERA)
        rover.step(4)
        ends.append(rover.state_dict())
    assert_same(*ends)


def test_several_environments_are_tiles_of_one_picture(rover):
    data = rover.entities["robot"]
    data.root_link_pose_w[1, 2] = 5.0  # out of the picture
    rover.mark_written(torch.tensor([False, True, False], device=rover.device))
    rover.forward()
    picture = rover.render(CameraCfg(**(vars(CAMERA) | {"num_envs": 3})))
    assert picture.shape == (120, 160, 3)
    tiles = [green(picture[row : row + 60, column : column + 80]).sum() for row in (0, 60) for column in (0, 80)]
    assert tiles[0] > 10 and tiles[0] == tiles[2]
    assert tiles[1] == tiles[3] == 0
