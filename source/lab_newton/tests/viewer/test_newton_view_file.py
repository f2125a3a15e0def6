"""``lab view``: a robot from its file alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lab_core.errors import ConfigError, LabError
from lab_core.names import UnknownNameError
from lab_newton.cli.view import main
from lab_newton.viewer.model_file import JointFolder, ModelFile
from lab_newton.viewer.png import write_png

LEG = """
<mujoco>
  <worldbody>
    <body name="trunk" pos="0 0 1">
      <joint name="lift" type="slide" axis="0 0 1"/>
      <joint name="tilt" axis="0 1 0"/>
      <geom size="0.1 0.1 0.1" type="box" mass="2" rgba="0 1 0 1"/>
      <body name="foot" pos="0 0 -0.2">
        <joint name="knee" axis="0 1 0" range="-90 30"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.04" mass="1" rgba="0 1 0 1"/>
        <geom name="shell" size="0.02" pos="0 0 -0.5" rgba="1 0 0 1" contype="0" conaffinity="0" mass="0"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="knee"/></actuator>
</mujoco>"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("view") / "leg.xml"
    path.write_text(LEG)
    return str(path)


@pytest.fixture(scope="module")
def shared_leg(file: str) -> Iterator[ModelFile]:
    model = ModelFile(file)
    yield model
    model.close()


@pytest.fixture
def leg(shared_leg: ModelFile) -> ModelFile:
    for joint in range(3):
        shared_leg.set_joint(joint, 0.0)
    return shared_leg


def test_the_report_names_masses_joints_shapes_and_what_differs(leg: ModelFile) -> None:
    lines = leg.report().splitlines()
    assert lines[0].endswith("leg.xml: 2 bodies, 3 joints, 3 kg, 3 shapes, 2 of them collide")
    rows = [line.split() for line in lines]
    assert ["foot", "1", "1"] in rows
    assert ["lift", "slide", "none", "none", "0"] in rows
    assert ["knee", "hinge", "-1.571", "0.5236", "0"] in rows
    assert any("configured actuators drive the joints" in line for line in lines)
    assert "nothing drives" not in leg.report()


def green(picture: np.ndarray) -> np.ndarray:
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return (green > red + 30) & (green > blue + 20)


def test_the_whole_robot_is_in_the_picture_and_joints_move_it(leg: ModelFile) -> None:
    straight = green(leg.render(160, 120))
    rows, columns = np.nonzero(straight)
    assert straight.sum() > 300 and 5 < rows.min() and rows.max() < 115 and 5 < columns.min() and columns.max() < 155
    leg.set_joint(2, -1.5)
    bent = green(leg.render(160, 120))
    assert (bent != straight).sum() > 100


def test_joints_without_limits_have_a_range_for_their_slider(leg: ModelFile) -> None:
    assert leg.joint_range(0) == (-0.5, 0.5)
    assert leg.joint_range(1) == pytest.approx((-np.pi, np.pi))
    assert leg.joint_range(2) == pytest.approx((-np.pi / 2, np.pi / 6))


def test_the_page_has_a_slider_for_each_joint(leg: ModelFile, port: int) -> None:
    page = leg.open_page(port)
    sliders = {slider.label: slider for slider in JointFolder(page, leg).sliders}
    assert list(sliders) == ["lift", "tilt", "knee"]
    assert (sliders["knee"].min, sliders["knee"].max) == pytest.approx((-np.pi / 2, np.pi / 6))
    leg.set_joint(0, 0.4)
    page.update()
    assert page._origins()[0, 2] == pytest.approx(0.0), "what moves is the joint, not the origin"
    page.close()


def test_what_collides_is_drawn_alone(file: str) -> None:
    model = ModelFile(file)
    both, colliding = model.render(160, 120), model.render(160, 120, collision=True)
    red = [(picture[..., 0].astype(int) > picture[..., 1].astype(int) + 60).sum() for picture in (both, colliding)]
    assert red[0] > 5 and red[1] == 0
    assert green(colliding).sum() > 300
    model.close()


def test_the_command_writes_a_picture_and_prints_the_report(file: str, tmp_path: Path, capsys) -> None:
    picture = tmp_path / "new" / "leg.png"
    assert main([file, "--picture", str(picture), "--joint_pos", "knee=-1", "--width", "80", "--height", "60"]) == 0
    assert "2 bodies, 3 joints" in capsys.readouterr().out
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and struct.unpack(">II", data[16:24]) == (80, 60)


def test_the_command_serves_a_page(file: str, port: int, capsys) -> None:
    assert main([file, "--port", str(port), "--seconds", "0.1"]) == 0
    assert f"page: http://127.0.0.1:{port}" in capsys.readouterr().out


def test_a_file_without_shapes_is_shown_by_its_frames(tmp_path: Path) -> None:
    robot = '<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" '
    robot += 'ixz="0" iyz="0"/></inertial></link></robot>'
    (tmp_path / "bare.urdf").write_text(robot)
    model = ModelFile(str(tmp_path / "bare.urdf"), fixed_base=False)
    picture = model.render(160, 120).astype(int)
    assert ((picture.max(axis=-1) - picture.min(axis=-1)) > 60).sum() > 10
    assert "0 shapes" in model.report()
    model.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--picture", "leg.jpg"], "A picture is a .png file, got --picture leg.jpg"),
        (["--joint-pos", "knee"], "takes NAME=POSITION, as in knee=0.8; got 'knee'"),
        (["--joint-pos", "knee=high"], "takes NAME=POSITION.*got 'knee=high'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_built(file: str, arguments: list[str], message: str) -> None:
    with pytest.raises(LabError, match=message):
        main([file, *arguments])


def test_what_is_not_there_is_named(file: str) -> None:
    with pytest.raises(LabError, match="Which file"):
        main(["--port", "80"])
    with pytest.raises(ConfigError, match="there is no file 'nowhere.xml'"):
        ModelFile("nowhere.xml")
    with pytest.raises(UnknownNameError, match="ankle.*lift, tilt, knee"):
        ModelFile(file, {"ankle": 1.0})


def test_a_png_holds_the_pixels(tmp_path: Path) -> None:
    picture = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    write_png(tmp_path / "a.png", picture)
    data = (tmp_path / "a.png").read_bytes()
    (size,) = struct.unpack(">I", data[33:37])
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + size]), dtype=np.uint8).reshape(2, 10)
    np.testing.assert_array_equal(rows[:, 1:].reshape(2, 3, 3), picture)
    assert data[37:41] == b"IDAT" and not rows[:, 0].any()
    with pytest.raises(LabError, match="Cannot write a picture"):
        write_png(tmp_path / "a.png" / "b.png", picture)
