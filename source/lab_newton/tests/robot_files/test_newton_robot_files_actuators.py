"""What the scene does with the actuators of a file, and with joints that follow others."""

from __future__ import annotations

import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.scene import (
    ArticulationCfg,
    ArticulationData,
    FileActuatorCfg,
    IdealPDActuatorCfg,
    InitialStateCfg,
    SceneCfg,
)
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

CASES = Path(__file__).parent / "cases"
SERVO = '<general name="a" joint="j" gear="3" gainprm="20" biastype="affine" biasprm="0 -20 -1" forcerange="-4 4"/>'


def arm(actuator: str) -> str:
    return (
        '<mujoco><worldbody><body name="b"><joint name="j" axis="0 1 0"/><geom size="0.05" pos="0.1 0 0" mass="0.5"/>'
        f"</body></worldbody><actuator>{actuator}</actuator></mujoco>"
    )


def make(cfg: ArticulationCfg, **settings) -> NewtonBackend:
    scene = SceneCfg(ground=None, entities={"robot": cfg})
    physics = NewtonCfg(dt=0.002, solver=MuJoCoSolverCfg(**{"njmax": 60, "nconmax": 20} | settings))
    return NewtonBackend(physics, scene, 2, torch.device("cpu"))


def data_of(backend: NewtonBackend) -> ArticulationData:
    data = backend.entities["robot"]
    assert isinstance(data, ArticulationData)
    return data


@pytest.fixture(scope="module")
def hopper() -> NewtonBackend:
    return make(ArticulationCfg(asset=str(CASES / "planar_hopper.xml"), actuators={"file": FileActuatorCfg()}))


def test_gear_gains_and_ranges_of_the_file_arrive(hopper):
    data = data_of(hopper)
    found = {
        joint: [float(buffer[0, i]) for buffer in (data.joint_stiffness, data.joint_damping, data.joint_effort_limits)]
        for i, joint in enumerate(data.joint_names)
    }
    assert found["hip"] == [0.0, 0.0, 200.0]
    assert found["ankle"] == [50.0, 2.0, 40.0]
    assert found["rootx"] == [0.0, 0.0, 0.0]
    resolved = hopper.resolved["robot"]
    assert isinstance(resolved, ArticulationCfg)
    assert resolved.actuators["file"].joint_names == ("hip", "ankle")
    assert resolved.init_state.pos == (0.0, 0.0, 1.1)


def test_both_actuators_drive_as_in_c_mujoco(hopper):
    model = mujoco.MjModel.from_xml_path(str(CASES / "planar_hopper.xml"))
    there = mujoco.MjData(model)
    model.opt.timestep, model.opt.integrator = 0.002, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    there.ctrl[:] = -0.1, 0.3
    data = data_of(hopper)
    data.joint_effort_target[:, 3] = -20.0
    data.joint_pos_target[:, 4] = 0.3
    for _ in range(100):
        hopper.step(1)
        mujoco.mj_step(model, there)
    assert abs(there.qpos[4]) > 0.05 and abs(there.qpos[3]) > 0.05, "they drive"
    # MuJoCo takes the damping of its servos implicitly.
    assert np.abs(data.joint_pos[0].numpy() - there.qpos).max() < 0.003


@pytest.mark.parametrize(
    ("actuator", "expected"),
    [
        ('<motor joint="j" gear="5" ctrlrange="-2 2"/>', (0.0, 0.0, 10.0)),
        ('<position joint="j" kp="30" kv="2" gear="2"/>', (120.0, 8.0, np.inf)),
        ('<velocity joint="j" kv="4" forcerange="-3 3"/>', (0.0, 4.0, 3.0)),
        (SERVO, (180.0, 9.0, 12.0)),
    ],
)
def test_every_kind_of_servo_is_taken_over(load, actuator: str, expected: tuple[float, float, float]):
    robot = load(arm(actuator), actuators={"file": FileActuatorCfg()})
    group = robot.entity.actuators["file"]
    assert isinstance(group, IdealPDActuatorCfg)
    values = (group.stiffness, group.damping, group.effort_limit)
    assert tuple(value["j"] for value in values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("actuator", "words"),
    [
        ('<intvelocity name="a" joint="j" kp="3" actrange="-1 1"/>', "actuator 'a' .*no motor and no position"),
        ('<motor name="a" joint="j" ctrlrange="0 1"/>', "actuator 'a' .*ctrlrange 0 to 1"),
        ('<motor joint="j"/><motor name="c" joint="j"/>', "actuator 'c' .*second one of joint 'j'"),
        ("", "drives none of j"),
    ],
)
def test_what_is_no_servo_is_refused_by_its_name(load, actuator: str, words: str):
    with pytest.raises(ConfigError, match=words):
        load(arm(actuator), actuators={"file": FileActuatorCfg()})


def test_a_group_of_the_scene_replaces_that_of_the_file(load):
    mine = IdealPDActuatorCfg(joint_names=("j",), stiffness=1.0)
    robot = load(arm(SERVO), actuators={"mine": mine})
    assert robot.entity.actuators == {"mine": mine}
    assert robot.solver.inner.mj_model.nu == 0
    assert "(a)" in robot.report


@pytest.fixture(scope="module")
def gripper() -> NewtonBackend:
    init = InitialStateCfg(joint_pos={"l": 0.3})
    return make(ArticulationCfg(asset=str(CASES / "gripper_mimic.urdf"), actuators={}, init_state=init))


def test_a_follower_starts_where_its_leader_demands_and_stays(gripper):
    data = data_of(gripper)
    assert data.joint_pos[0].tolist() == pytest.approx([0.3, -0.25])
    gripper.step(20)
    assert data.joint_pos[1].tolist() == pytest.approx([0.3, -0.25], abs=1e-4)
    assert data.joint_vel.abs().max() < 1e-3


def test_a_follower_follows_what_is_written(gripper):
    data = data_of(gripper)
    data.joint_pos[1] = torch.tensor([-0.2, 0.7])
    data.joint_vel[1] = torch.tensor([0.5, 9.0])
    gripper.mark_written(torch.tensor([False, True]))
    gripper.forward()
    assert data.joint_pos[1].tolist() == pytest.approx([-0.2, 0.25])
    assert data.joint_vel[1].tolist() == pytest.approx([0.5, -0.5])
    gripper.step(5)
    assert data.joint_vel[1].tolist() == pytest.approx([0.5, -0.5], abs=1e-3)


def test_a_drive_on_a_follower_is_refused(load):
    drive = IdealPDActuatorCfg(joint_names=(".*",), stiffness=1.0)
    with pytest.raises(ConfigError, match="joint 'r' follows 'l'. Leave it out"):
        load("gripper_mimic.urdf", actuators={"all": drive})


def pair_of_fingers(polynomial: str) -> str:
    def finger(name: str, low: float) -> str:
        joint = f'<joint name="{name}" axis="0 1 0" range="{low} 1"/>'
        return f'<body name="{name}" pos="0 0 1">{joint}<geom size="0.05" mass="1" contype="0"/></body>'

    palm = f'<body><geom size="0.1"/>{finger("l", -1.0)}{finger("r", 0.2)}</body>'
    equality = f'<equality><joint joint1="r" joint2="l" polycoef="{polynomial}"/></equality>'
    return f'<mujoco><compiler angle="radian"/><worldbody>{palm}</worldbody>{equality}</mujoco>'


def test_a_follower_is_told_of_where_its_leader_puts_it_beyond_its_limits_and_not_before(load):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(pair_of_fingers("0.5 1 0 0 0")).joint_pos == pytest.approx({"l": 0.0, "r": 0.5})
    told = r"joint 'r' follows 'l', whose default position 0 puts it to 0, outside of its limits 0\.2 to 1\."
    with pytest.warns(UserWarning, match=told):
        load(pair_of_fingers("0 1 0 0 0"))
