"""Model files: what is read, and what is refused with which words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import newton
import pytest
import warp as wp
from newton.solvers import SolverMuJoCo

from lab_core.errors import ConfigError
from lab_core.scene import SceneCfg
from lab_newton import MuJoCoSolverCfg
from lab_newton.model import build_model
from lab_newton.robot_files import asset_path
from lab_newton.state import EntityLayout, make_entity
from lab_newton.terrain import Ground

PREPARE = MuJoCoSolverCfg().prepare
HINGE = '<joint name="{joint}" type="hinge"/><geom type="sphere" size="0.1"/>'


def mjcf(body: str, rest: str = "") -> str:
    return f'<mujoco model="m"><worldbody>{body}</worldbody>{rest}</mujoco>'


def build_scene(scene: SceneCfg) -> tuple[newton.Model, dict[str, EntityLayout]]:
    device = wp.get_device("cpu")
    entities = {name: make_entity(cfg, name, 1, device) for name, cfg in scene.entities.items()}
    ground = Ground(scene, None, "mesh", device)
    model = build_model(scene, entities, (0.0, 0.0, -9.81), 1, device, ground, MuJoCoSolverCfg().prepare)
    return model, {name: entity.layout for name, entity in entities.items()}


@pytest.fixture
def build(tmp_path: Path, rover_cfg):
    """Builds one world of a robot whose model file has the given text."""

    def build(text: str, suffix: str = ".xml", **settings):
        file = tmp_path / f"robot{suffix}"
        file.write_text(text)
        scene = SceneCfg(entities={"robot": replace(rover_cfg, asset=str(file), actuators={}, **settings)})
        return build_scene(scene)

    return build


def test_a_path_inside_a_package_is_found():
    path = asset_path("lab_newton:py.typed")
    assert path.is_file() and path.parent.name == "lab_newton"


def test_a_path_may_contain_environment_variables(tmp_path, monkeypatch):
    (tmp_path / "robot.xml").touch()
    monkeypatch.setenv("LAB_SOME_FOLDER", str(tmp_path))
    assert asset_path("$LAB_SOME_FOLDER/robot.xml") == tmp_path / "robot.xml"


@pytest.mark.parametrize(
    ("asset", "words"),
    [
        ("/nowhere/robot.xml", r"'/nowhere/robot.xml': there is no file"),
        ("lab_newton:robots/nobody.xml", r"there is no file '.*robots/nobody.xml'"),
        ("no_such_package:robot.xml", r"there is no package 'no_such_package'"),
        ("$LAB_NO_SUCH_VARIABLE/robot.xml", r"the environment variable LAB_NO_SUCH_VARIABLE is not set"),
    ],
)
def test_a_missing_asset_is_named(asset: str, words: str):
    with pytest.raises(ConfigError, match=words):
        asset_path(asset)


def test_a_broken_file_is_named(build):
    with pytest.raises(ConfigError, match=r"Entity 'robot': cannot read '.*robot.xml': XML parse error"):
        build("<mujoco><worldbody>")


def test_an_unknown_kind_of_file_is_refused(build):
    with pytest.raises(ConfigError, match=r"robot.stl' is no .xml"):
        build("solid", suffix=".stl")


def test_a_joint_that_only_the_file_drives_is_told(build):
    body = f'<body name="b">{HINGE.format(joint="j")}</body>'
    motor = '<actuator><position joint="j" kp="100"/></actuator>'
    with pytest.warns(UserWarning, match=r"nothing drives j, .*scene\.entities\['robot'\]\.actuators"):
        build(mjcf(body, motor))


def test_names_must_be_unique(build):
    body = (
        f'<body name="left">{HINGE.format(joint="knee")}<body name="foot">{HINGE.format(joint="a")}</body>'
        f'<body name="right">{HINGE.format(joint="b")}<body name="foot">{HINGE.format(joint="knee")}</body>'
        "</body></body>"
    )
    with pytest.raises(ConfigError, match="repeated name 'foot' in body"):
        build(mjcf(body))


def test_ball_joints_are_refused(build):
    body = '<body name="b"><joint name="hip" type="ball"/><geom type="sphere" size="0.1"/></body>'
    with pytest.raises(ConfigError, match="joint 'hip' is of type BALL"):
        build(mjcf(body))


def test_two_robots_in_one_file_are_refused(build):
    bodies = "".join(f'<body name="b{i}">{HINGE.format(joint=f"j{i}")}</body>' for i in range(2))
    with pytest.raises(ConfigError, match="2 articulations, expected one"):
        build(mjcf(bodies))


def test_an_empty_scene_is_refused():
    with pytest.raises(ConfigError, match="scene.entities is empty"):
        build_scene(SceneCfg())


def test_options_of_the_file_do_not_change_the_world(build):
    body = f'<body name="b">{HINGE.format(joint="j")}</body>'
    model, _ = build(mjcf(body, '<option gravity="0 0 -1" timestep="0.1"/>'))
    assert model.gravity.numpy()[0].tolist() == pytest.approx([0.0, 0.0, -9.81])


INERTIAL = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'
URDF = f"""<robot name="arm">
      <link name="base">{INERTIAL}</link>
      <link name="rod">{INERTIAL}</link>
      <joint name="elbow" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" effort="10" velocity="1"/></joint>
    </robot>"""


def test_a_urdf_file_is_read_and_its_drives_are_left_out(build):
    model, layouts = build(URDF, suffix=".urdf")
    assert layouts["robot"].joint_names == ("elbow",)
    assert layouts["robot"].body_names == ("base", "rod")
    assert not layouts["robot"].floating
    assert not model.joint_target_ke.numpy().any() and not model.joint_target_kd.numpy().any()
    assert SolverMuJoCo(model).mjw_model.nactuator == 0


def test_the_base_of_a_urdf_file_may_float(build):
    model, layouts = build(URDF, suffix=".urdf", fixed_base=False)
    assert layouts["robot"].floating and layouts["robot"].joint_names == ("elbow",)
    assert model.joint_q.numpy()[:3] == pytest.approx([0.0, 0.0, 0.5]), "it starts where the configuration says"


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_a_floating_robot_can_be_hung_up(make_rover, rover_cfg):
    backend = make_rover(num_envs=2, entity=replace(rover_cfg, fixed_base=True))
    backend.step(50)
    data = backend.entities["robot"]
    assert data.fixed_base and data.joint_names == ("shoulder", "wrist", "tail")
    assert data.root_link_pose_w[:, 2].tolist() == pytest.approx([0.5, 0.5])
