"""The cart-pole's model file against published facts about the robot."""

from __future__ import annotations

import math
from importlib.resources import files

import mujoco
import numpy as np
import pytest

STATES = [
    # joint positions, pole centre of mass, pole tip (rail frame), mass matrix, bias force
    ([0.0, 0.0], [0.12, 0.0, 0.47], [0.12, 0.0, 0.97], [[2.0, -0.47], [-0.47, 0.304533]], [0.0, 0.0]),
    (
        [0.5, 0.3],
        [0.12, 0.3611055, 0.4490081],
        [0.12, 0.2133454, 0.9266764],
        [[2.0, -0.449008], [-0.449008, 0.304533]],
        [0.0, -1.362555],
    ),
    ([-1.0, math.pi], [0.12, -1.0, -0.47], [0.12, -1.0, -0.97], [[2.0, 0.47], [0.47, 0.304533]], [0.0, 0.0]),
    (
        [0.25, -math.pi / 4],
        [0.12, 0.5823402, 0.3323402],
        [0.12, 0.9358936, 0.6858936],
        [[2.0, -0.33234], [-0.33234, 0.304533]],
        [0.0, 3.260257],
    ),
]


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(files("lab_tasks") / "robots/cartpole/cartpole.xml"))


@pytest.mark.parametrize(("position", "com", "tip", "mass_matrix", "bias"), STATES)
def test_kinematics_and_dynamics(model, position, com, tip, mass_matrix, bias):
    data = mujoco.MjData(model)
    data.qpos[:] = position
    mujoco.mj_forward(model, data)
    pole = model.body("pole").id
    tip_position = data.xpos[pole] + data.xmat[pole].reshape(3, 3) @ [0.0, 0.0, 0.97]
    dense = np.zeros((2, 2))
    mujoco.mj_fullM(model, data, dense)
    assert data.xipos[pole] == pytest.approx(com, abs=1e-6)
    assert tip_position == pytest.approx(tip, abs=1e-6)
    assert dense == pytest.approx(np.array(mass_matrix), abs=1e-5)
    assert data.qfrc_bias == pytest.approx(bias, abs=1e-5)


def test_masses_and_ranges(model):
    assert model.body("cart").mass[0] == 1.0
    assert model.body("pole").mass[0] == 1.0
    assert model.joint("slider_to_cart").range.tolist() == [-4.0, 4.0]
    assert not model.jnt_limited[model.joint("cart_to_pole").id]


def test_natural_frequencies(model):
    pole = model.body("pole")
    about_hinge = pole.inertia[0] + pole.mass[0] * pole.ipos[2] ** 2
    lever = pole.mass[0] * pole.ipos[2]
    assert about_hinge == pytest.approx(0.304533, abs=1e-6)
    assert math.sqrt(lever * 9.81 / about_hinge) == pytest.approx(3.891043, abs=1e-5)
    assert math.sqrt(lever * 9.81 / (about_hinge - lever**2 / 2.0)) == pytest.approx(4.874043, abs=1e-5)


def test_nothing_collides(model):
    assert not model.geom_contype.any()
    assert not model.geom_conaffinity.any()
