"""``lab new``: the files of a package, and what it refuses. That the package trains is tested where learning is."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from lab_core.errors import ConfigError, LabError
from lab_newton.cli.new import main
from lab_newton.new_package.files import package_files
from lab_newton.new_package.model_copy import copy_model
from lab_newton.new_package.robot_facts import RobotFacts, read_facts

LEG = """
<mujoco>
  <worldbody>
    <body name="trunk" pos="0 0 0.1">
      <freejoint/>
      <geom type="box" size="0.1 0.1 0.1" mass="2"/>
      <body name="foot" pos="0 0 -0.2">
        <joint name="knee" axis="0 1 0" range="-90 30"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.04" mass="1"/>
      </body>
    </body>
  </worldbody>
  ACTUATORS
</mujoco>"""
FACTS = RobotFacts(
    hinges=("hip", "knee"),
    slides=("lift",),
    file_drives=False,
    by_effort=False,
    effort_limits={},
    floats=True,
    weight=100.0,
    size=0.5,
    lift=0.25,
    root_pos=(0.0, 0.0, 0.5),
    moved_joints={"knee": -0.3},
)


def test_a_robot_without_actuators_gets_servos_that_hold_its_weight() -> None:
    files = package_files("my_dog", "dog.xml", FACTS)
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)
    assert tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]["lab.tasks"] == {
        "MyDog-Stay": "my_dog.task:TASK"
    }
    robot = files["my_dog/robot.py"]
    assert '"knee": -0.3' in robot
    assert "stiffness=25," in robot and "stiffness=1000," in robot and "pos=(0, 0, 0.75)" in robot
    assert "bad_orientation" in files["my_dog/task.py"] and "JointPositionActionCfg" in files["my_dog/task.py"]


def test_actuators_of_the_file_are_taken_over_and_motors_take_efforts(tmp_path: Path) -> None:
    actuators = {"motor": '<motor joint="knee" forcerange="-7 7"/>', "servo": '<position joint="knee" kp="20"/>'}
    for name, actuator in actuators.items():
        (tmp_path / f"{name}.xml").write_text(LEG.replace("ACTUATORS", f"<actuator>{actuator}</actuator>"))
    motor, servo = read_facts(str(tmp_path / "motor.xml")), read_facts(str(tmp_path / "servo.xml"))
    assert motor.by_effort and not servo.by_effort and motor.file_drives and servo.file_drives
    assert motor.hinges == ("knee",) and motor.effort_limits == {"knee": 7.0}
    task = package_files("leg", "motor.xml", motor)["leg/task.py"]
    assert 'JointEffortActionCfg(joint_names=["knee"], scale={"knee": 7})' in task
    assert motor.floats and motor.weight == pytest.approx(3 * 9.81) and motor.lift > 0.3


def test_joints_whose_limits_exclude_zero_get_a_start_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "bent.xml").write_text(LEG.replace("ACTUATORS", "").replace('range="-90 30"', 'range="30 90"'))
    facts = read_facts(str(tmp_path / "bent.xml"))
    assert facts.moved_joints == {"knee": pytest.approx(0.523599)}
    scope: dict = {}
    exec(package_files("bent", "bent.xml", facts)["bent/robot.py"], scope)
    assert scope["robot_cfg"]().init_state.joint_pos == facts.moved_joints


def test_the_model_comes_along_with_its_meshes_and_includes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("meshes/foot.obj", "skin.png", "more/parts.xml"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("content")
    (source / "robot.xml").write_text(
        '<mujoco><compiler meshdir="meshes"/><include file="more/parts.xml"/><asset><mesh file="foot.obj"/>'
        '<texture file="/absent/skin.png"/></asset></mujoco>'
    )
    copy_model(source / "robot.xml", target)
    copied = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert copied == {"robot.xml", "meshes/foot.obj", "more/parts.xml"}
    (source / "outer.xml").write_text('<mujoco><include file="../beside.xml"/></mujoco>')
    (tmp_path / "beside.xml").write_text("<mujoco/>")
    with pytest.raises(ConfigError, match="beside.xml, which lies outside of"):
        copy_model(source / "outer.xml", target)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my_leg"], "Which package, for which robot"),
        (["My-Leg", "--robot", "leg.xml"], "small letters, digits and _, as in my_robot; got 'My-Leg'"),
        (["json", "--robot", "leg.xml"], "There is a package 'json' already"),
        (["my_leg", "--robot", "leg.xml", "--folder", "."], "is there already"),
        (["my_leg", "--robot", "leg.xml", "--folder", "new"], "there is no file 'leg.xml'"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path, monkeypatch, arguments, message) -> None:
    (tmp_path / "mine").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError, match=message):
        main(arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
