"""Small files of every kind that once were simulated wrongly, or refused, beside C MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from lab_core.errors import ConfigError
from lab_core.scene import GroundCfg, InitialStateCfg

MOVING = (
    "gantry.xml",
    "pair_hands.xml",
    "planar_hopper.xml",
    "replicate_legs.xml",
    "springdamper.xml",
    "table.xml",
    "two_defaults.xml",
    "two_hinges.xml",
    "capsule.urdf",
    "continuous.urdf",
    "gripper_mimic.urdf",
    "limit_spring.urdf",
    "slashes.urdf",
)


@pytest.mark.parametrize("case", MOVING)
def test_every_file_moves_as_in_c_mujoco(load, case: str):
    robot = load(case)
    robot.push()
    robot.step_both(100)
    assert robot.distance() < 3e-5
    if robot.entity.layout.joint_names:
        assert max(abs(value) for value in robot.joint_pos.values()) > 0.005, "it moved"


def test_an_inactive_weld_does_not_change_what_collides(load):
    robot = load("gantry.xml", ground=GroundCfg(), init_state=InitialStateCfg(pos=(0.0, 0.0, 0.3)))
    robot.step(500)
    assert robot.places[0, 2] == pytest.approx(0.100, abs=0.002)


def test_replicated_legs_are_there(load):
    robot = load("replicate_legs.xml")
    assert robot.entity.layout.joint_names == ("hip_0", "hip_1", "hip_2", "hip_3")
    assert len(robot.entity.layout.body_names) == 5
    assert robot.model.body_mass.numpy().sum() == pytest.approx(2.5)


def test_an_explicit_pair_of_hands_collides(load):
    robot = load("pair_hands.xml", gravity=0.0, init_state=InitialStateCfg(pos=(0.0, 0.0, 5.0)))
    velocity = robot.state.joint_qd.numpy()
    velocity[list(robot.entity.layout.joint_dof)] = 3.0, -3.0
    robot.state.joint_qd.assign(velocity)
    robot.step(250)
    assert robot.joint_pos["l"] == pytest.approx(0.451, abs=0.005)
    assert robot.joint_pos["r"] == pytest.approx(-0.451, abs=0.005)


def test_the_capsule_of_a_urdf_file_has_its_length_and_mass(load):
    robot = load("capsule.urdf")
    mass = dict(zip(robot.entity.layout.body_names, robot.model.body_mass.numpy().tolist(), strict=True))
    assert mass["b"] == pytest.approx(2.88, abs=0.01)
    assert robot.model.shape_scale.numpy()[0, 1] == pytest.approx(0.15)


def test_a_missing_mesh_is_refused_with_the_path_that_was_looked_for(load):
    with pytest.raises(ConfigError, match=r"'robot': the mesh 'meshes/none.stl' of link 'a' .*cases/meshes/none.stl"):
        load("missing_mesh.urdf")


@pytest.mark.parametrize(
    ("case", "expected"),
    [("springdamper.xml", {"stiffness": 0.55, "damping": 0.11}), ("two_defaults.xml", {"damping": 1, "armature": 0.1})],
)
def test_attributes_of_the_compiler_arrive(load, case: str, expected: dict[str, float]):
    model = load(case).solver.inner.mjw_model
    fields = {"stiffness": model.jnt_stiffness, "damping": model.dof_damping, "armature": model.dof_armature}
    for name, value in expected.items():
        assert fields[name].numpy()[0] == pytest.approx(value, rel=0.01), name


def test_a_continuous_joint_has_no_limits_whatever_the_file_says(load):
    robot = load("continuous.urdf")
    assert not robot.solver.inner.mj_model.jnt_limited.any()
    assert "'w' is continuous" in robot.report


def test_the_planar_robot_starts_where_the_file_puts_it_and_the_floor_stays(load):
    robot = load("planar_hopper.xml", init_state=InitialStateCfg(pos=(0.0, 0.0, 1.5)))
    assert robot.entity.layout.joint_names == ("rootx", "rootz", "rooty", "hip", "ankle")
    assert robot.places[0, 2] == pytest.approx(1.5)
    floor = robot.imported.shapes[0]
    assert robot.model.shape_transform.numpy()[floor, 2] == 0.0
    robot = load("planar_hopper.xml")
    assert robot.places[0, 2] == pytest.approx(1.1)
    heights = []
    for _ in range(10):
        robot.step_both(100)
        heights.append(float(robot.places[:, 2].max()))
        assert np.isfinite(robot.places).all()
    assert max(heights) < 1.2 and robot.places[:, 2].min() > -0.1, "it falls on the floor, and not through it"


def test_names_with_slashes_stay_whole(load):
    assert load("slashes.urdf").entity.layout.joint_names == ("left/hip", "right/hip")


def test_limits_of_urdf_files_are_as_hard_as_mujocos(load):
    robot = load("limit_spring.urdf")
    highest = 0.0
    for _ in range(100):
        robot.step(10)
        highest = max(highest, robot.joint_pos["w"])
    assert highest < 0.33
    assert robot.joint_pos["w"] == pytest.approx(0.30, abs=0.01)


def test_a_table_stays_at_its_place(load):
    robot = load("table.xml", init_state=InitialStateCfg(pos=(2.0, 0.0, 0.0)))
    assert robot.entity.layout.body_names == ("base",)
    built = robot.solver.inner.mj_model
    assert np.allclose(built.geom_pos[built.geom_bodyid == 0], robot.compiled.body("table").pos)
    assert "(table)" in robot.report


def test_a_follower_follows(load):
    robot = load("gripper_mimic.urdf")
    assert robot.solver.inner.mj_model.eq_type.tolist() == [int(mujoco.mjtEq.mjEQ_JOINT)]
