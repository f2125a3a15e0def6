"""An exported policy, its metadata and the robot's model file are all that another simulator needs."""

from __future__ import annotations

import importlib.util
import sys
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lab_core.registry import get_task

SCRIPT = Path(__file__).parents[3] / "scripts/play_in_mujoco.py"
TASK = "Lab-Velocity-Rough-Go2"
GO2 = files("lab_tasks") / "robots/go2/go2.xml"


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("onnxruntime")
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    module = sys.modules[SCRIPT.stem] = importlib.util.module_from_spec(spec)  # dataclasses look there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("command", [(0.8, 0.0, 0.0), (-0.8, 0.0, 0.0), (0.0, 0.6, 0.0), (0.5, 0.0, 0.8)])
def test_the_demo_of_the_go2_walks_in_plain_mujoco(script, command):
    controller = script.Controller(get_task(TASK).demo_path())
    controller.commands["base_velocity"] = command
    robot = script.Robot(script.load_model(GO2, controller), controller)
    velocities = []
    for step in range(250):
        robot.step()
        if step >= 50:
            sensed = robot.sense()
            velocities.append([*sensed.com_velocity[:2], sensed.angular_velocity[2]])
    assert robot.data.body("base").xpos[2] > 0.2, "it fell"
    np.testing.assert_allclose(np.mean(velocities, axis=0), np.array(command), atol=0.2)


def test_bodies_without_names_and_actuators_of_the_file_do_not_disturb(script, tmp_path):
    """A robot of others: its shin has no name, and its servo would pull against the policy."""
    (tmp_path / "leg.xml").write_text("""<mujoco><worldbody><body name="hip"><joint name="knee"/><geom size="0.1"/>
        <body pos="0 0 -0.3"><geom size="0.05"/></body></body></worldbody>
        <actuator><position joint="knee" kp="1000"/></actuator><keyframe><key ctrl="1"/></keyframe></mujoco>""")
    controller = SimpleNamespace(
        lab={"timing": {"physics_dt": 0.005}, "entities": {"robot": {"fixed_base": True}}},
        action_cfg={"entity": "robot"},
        joint_names=["knee"],
        body_names=["hip", "body_2"],
        default_pos=np.array([0.2]),
        default_vel=np.array([0.0]),
    )
    model = script.load_model(tmp_path / "leg.xml", controller)
    assert model.nu == 0 and model.opt.timestep == 0.005
    assert script.Robot(model, controller).sense().heights.keys() == {"hip"}


def test_the_command_line_plays_the_demo(script, capsys):
    script.main(
        [str(get_task(TASK).demo_path()), str(GO2), "--command", "base_velocity", "0.5", "0", "0", "--seconds", "1"]
    )
    assert capsys.readouterr().out.count("root at") == 2


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "observes the command 'base_velocity', which is not given"),
        (["--command", "base_velocity", "0.5"], "'velocity_commands' had 3 values, here 1"),
    ],
)
def test_a_command_that_is_missing_or_too_short_is_named(script, capsys, command, message):
    with pytest.raises(SystemExit) as ended:
        script.main([str(get_task(TASK).demo_path()), str(GO2), *command])
    assert ended.value.code == 1 and message in capsys.readouterr().err
