"""Full-mesh models of robots, from a small menagerie that the tests make."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from importlib.resources import files
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from lab_core.cli import main
from lab_core.errors import ConfigError
from lab_core.scene import SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_tasks.downloads.full_mesh import with_full_meshes
from lab_tasks.downloads.menagerie import MODELS, find_model
from lab_tasks.robots import anymal_c_cfg, g1_cfg, go2_cfg

ROBOTS = {
    "go2": go2_cfg().asset,
    "g1": g1_cfg().asset,
    "anymal_c": anymal_c_cfg(drive="dc_motor").asset,
}
TETRAHEDRON = """
v 0 0 0
v 0.1 0 0
v 0 0.2 0
v 0 0 0.3
f 1 3 2
f 1 2 4
f 1 4 3
f 2 3 4
"""


def png() -> bytes:
    """A picture of one red pixel."""
    parts = (
        (b"IHDR", struct.pack(">2I5B", 1, 1, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\0\xff\0\0")),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def own_file(robot: str) -> Path:
    package, _, inside = ROBOTS[robot].partition(":")
    return Path(str(files(package) / inside))


def frames_of(robot: str) -> str:
    """Our model as MJCF without any shape."""
    spec = mujoco.MjSpec.from_file(str(own_file(robot)))
    for geom in spec.geoms:
        spec.delete(geom)
    spec.compile()
    return spec.to_xml()


def write_model(folder: Path, robot: str) -> Path:
    """A model as the menagerie has them: motors, keyframes, feet in the legs, meshes with classes and materials."""
    root = ET.fromstring(frames_of(robot))
    root.append(ET.fromstring('<compiler assetdir="assets"/>'))
    asset = '<asset><mesh file="part.obj" scale="0.5 0.5 2"/><mesh name="top" file="top.obj"/></asset>'
    root.append(ET.fromstring(asset))
    root.append(ET.fromstring('<asset><texture type="2d" name="skin" file="skin.png"/></asset>'))
    root.append(ET.fromstring('<asset><material name="steel" rgba="0.1 0.2 0.3 1"/></asset>'))
    root.append(ET.fromstring('<asset><material name="skin" texture="skin"/></asset>'))
    for contact in root.findall("contact"):
        root.remove(contact)
    defaults = root.find("default")
    defaults = ET.SubElement(root, "default") if defaults is None else defaults
    geom = '<geom type="mesh" contype="0" conaffinity="0" group="2" material="steel"/>'
    defaults.append(ET.fromstring(f'<default class="seen">{geom}</default>'))
    bodies = list(root.find("worldbody").iter("body"))
    for body in bodies:
        for child in [child for child in body.findall("body") if child.find("joint") is None]:
            body.remove(child)
    bodies = list(root.find("worldbody").iter("body"))
    bodies[0].append(ET.fromstring('<geom class="seen" mesh="top" material="skin"/>'))
    for body in bodies[1:]:
        body.append(ET.fromstring('<geom class="seen" mesh="part" pos="0.01 0 -0.1" euler="1.5707963 0 0"/>'))
        body.append(ET.fromstring('<geom type="sphere" size="0.5"/>'))
    joint = next(joint.get("name") for joint in root.find("worldbody").iter("joint") if joint.get("type") != "free")
    root.append(ET.fromstring(f'<actuator><position joint="{joint}" kp="50"/></actuator>'))
    path = folder / MODELS[robot]
    (path.parent / "assets").mkdir(parents=True)
    for name in ("part.obj", "top.obj"):
        (path.parent / "assets" / name).write_text(TETRAHEDRON)
    (path.parent / "assets" / "skin.png").write_bytes(png())
    ET.ElementTree(root).write(path)
    return path


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("menagerie")
    for robot in MODELS:
        write_model(folder, robot)
    return folder


@pytest.fixture(autouse=True)
def nothing_is_set(tmp_path, monkeypatch):
    for variable in ("LAB_MENAGERIE", "MENAGERIE_ROOT", "MENAGERIE_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# Finding --------------------------------------------------------------------------------------------------------------


def test_the_nearest_copy_is_taken(tmp_path, monkeypatch):
    assert find_model("go2") is None
    copies = [tmp_path / name for name in ("given", "LAB_MENAGERIE", "MENAGERIE_ROOT")]
    for folder in copies:
        (folder / "unitree_go2").mkdir(parents=True)
        (folder / "unitree_go2" / "go2.xml").touch()
    given, first, second = copies
    monkeypatch.setenv("MENAGERIE_ROOT", str(second))
    assert find_model("go2") == second / "unitree_go2" / "go2.xml"
    monkeypatch.setenv("LAB_MENAGERIE", str(first))
    assert find_model("go2") == first / "unitree_go2" / "go2.xml"
    assert find_model("go2", given) == given / "unitree_go2" / "go2.xml"
    assert find_model("g1", given) is None


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the cache of mujoco-menagerie is elsewhere")
def test_the_newest_complete_model_of_the_cache_is_taken(tmp_path):
    models = tmp_path / "cache" / "mujoco_menagerie" / "models"
    for age, (version, complete) in enumerate((("new", True), ("old", True), ("half", False))):
        folder = models / f"unitree_go2-{version}"
        folder.mkdir(parents=True)
        file = folder / "go2.xml"
        file.touch()
        os.utime(file, (1e9 - age, 1e9 - age))
        if complete:
            (folder / ".complete").touch()
    os.utime(models / "unitree_go2-half" / "go2.xml", (2e9, 2e9))
    assert find_model("go2") == models / "unitree_go2-new" / "go2.xml"


def test_only_robots_of_the_menagerie_have_models():
    with pytest.raises(ConfigError, match="unknown robot 'go3'. Did you mean 'go2'.*anymal_c, g1, go2"):
        find_model("go3")


# Dressing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("robot", ROBOTS)
def test_only_what_is_seen_changes(robot, checkout):
    ours = mujoco.MjModel.from_xml_path(str(own_file(robot)))
    dressed = mujoco.MjModel.from_xml_path(with_full_meshes(robot, ROBOTS[robot], checkout))
    for name in (
        *("body_parentid", "body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia"),
        *("jnt_type", "jnt_bodyid", "jnt_pos", "jnt_axis", "jnt_range", "jnt_stiffness"),
        *("dof_armature", "dof_damping", "dof_frictionloss", "body_invweight0", "dof_invweight0"),
    ):
        assert np.array_equal(getattr(ours, name), getattr(dressed, name)), name
    assert [ours.joint(i).name for i in range(ours.njnt)] == [dressed.joint(i).name for i in range(dressed.njnt)]
    assert [ours.body(i).name for i in range(ours.nbody)] == [dressed.body(i).name for i in range(dressed.nbody)]
    assert ours.exclude_signature.tolist() == dressed.exclude_signature.tolist()
    solid = [np.flatnonzero(model.geom_contype) for model in (ours, dressed)]
    for name in ("bodyid", "type", "size", "pos", "quat", "friction", "priority", "condim", "solref", "margin"):
        values = [getattr(m, f"geom_{name}")[i] for m, i in zip((ours, dressed), solid, strict=True)]
        assert np.array_equal(*values), name
    assert [dressed.geom(i).name for i in solid[1]] == [ours.geom(i).name for i in solid[0]]
    assert dressed.nu == 0

    seen = np.flatnonzero(dressed.geom_contype == 0)
    assert (dressed.geom_type[seen] == mujoco.mjtGeom.mjGEOM_MESH).all()
    assert (dressed.geom_group[seen] == 2).all()
    moved = {dressed.body(i).name for i in dressed.jnt_bodyid}
    assert {dressed.body(i).name for i in dressed.geom_bodyid[seen]} == moved


def test_meshes_sit_where_the_model_has_them(checkout):
    """With the scales, colours and rotations of its classes and materials."""
    theirs = mujoco.MjModel.from_xml_path(str(checkout / MODELS["go2"]))
    ours = mujoco.MjModel.from_xml_path(with_full_meshes("go2", ROBOTS["go2"], checkout))

    def corners(model: mujoco.MjModel, body: str) -> tuple[np.ndarray, np.ndarray]:
        (geom,) = np.flatnonzero(
            (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH) & (model.geom_bodyid == model.body(body).id)
        )
        mesh = model.geom_dataid[geom]
        start = model.mesh_vertadr[mesh]
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, model.geom_quat[geom])
        points = model.mesh_vert[start : start + model.mesh_vertnum[mesh]] @ rotation.reshape(3, 3).T
        material = model.geom_matid[geom]
        rgba = model.geom_rgba[geom] if material < 0 else model.mat_rgba[material]
        return np.sort(points + model.geom_pos[geom], axis=0), rgba

    for body in ("base", "FL_hip", "RR_calf"):
        found, expected = corners(ours, body), corners(theirs, body)
        assert found[0] == pytest.approx(expected[0], abs=1e-6)
        assert found[1] == pytest.approx(expected[1])
    lowest = corners(ours, "FL_hip")[0].min(axis=0)
    assert lowest == pytest.approx([0.01, -0.6, -0.1], abs=1e-6)


def test_the_file_is_written_once(checkout):
    first = Path(with_full_meshes("go2", ROBOTS["go2"], checkout))
    stamp = first.stat().st_mtime_ns
    assert Path(with_full_meshes("go2", ROBOTS["go2"], checkout)) == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_robots_wear_the_meshes_on_request(checkout, monkeypatch):
    with pytest.raises(ConfigError, match="no full-mesh model of 'go2'. Give a checkout .* prefetch unitree_go2"):
        go2_cfg(full_meshes=True)
    monkeypatch.setenv("LAB_MENAGERIE", str(checkout))
    for cfg, plain in (
        (go2_cfg(full_meshes=True), go2_cfg()),
        (g1_cfg(full_meshes=True), g1_cfg()),
        (
            anymal_c_cfg(variant="menagerie", drive="dc_motor", full_meshes=True),
            anymal_c_cfg(variant="menagerie", drive="dc_motor"),
        ),
    ):
        assert Path(cfg.asset).is_file()
        cfg.asset = plain.asset
        assert cfg == plain


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</worldbody>", "", "Cannot read '.*unitree_go2/go2.xml': .*worldbody"),
        ('name="FL_calf" pos="0 0 -0.213"', 'name="FL_calf" pos="0 0 -0.2"', "the body 'FL_calf' elsewhere .*0.013 m"),
        ('name="RL_thigh"', 'name="RL_leg"', "shows a body 'RL_leg', which our model of the robot does not have"),
    ],
)
def test_models_that_do_not_fit_are_refused(tmp_path, old, new, message):
    path = write_model(tmp_path, "go2")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError, match=message):
        with_full_meshes("go2", ROBOTS["go2"], tmp_path)


def test_a_mesh_that_is_not_there_is_named(tmp_path):
    path = write_model(tmp_path, "go2")
    (path.parent / "assets" / "part.obj").unlink()
    with pytest.raises(ConfigError, match="incomplete: there is no file '.*assets/part.obj'"):
        with_full_meshes("go2", ROBOTS["go2"], tmp_path)


def test_a_robot_in_meshes_moves_bit_for_bit_as_before(checkout, monkeypatch):
    monkeypatch.setenv("LAB_MENAGERIE", str(checkout))
    solver = MuJoCoSolverCfg(njmax=100, nconmax=16)

    def run(full_meshes: bool) -> NewtonBackend:
        scene = SceneCfg(entities={"robot": go2_cfg(full_meshes=full_meshes)})
        backend = NewtonBackend(NewtonCfg(dt=0.005, solver=solver), scene, 1, torch.device("cpu"))
        data = backend.entities["robot"]
        data.joint_pos_target.copy_(data.default_joint_pos)
        backend.step(40)
        backend.close()
        return backend

    plain, dressed = run(False), run(True)
    before, after = (backend.entities["robot"] for backend in (plain, dressed))
    assert (before.joint_names, before.body_names) == (after.joint_names, after.body_names)
    for name in ("root_link_pose_w", "joint_pos", "joint_vel", "body_mass", "body_inertia_b", "body_friction"):
        assert torch.equal(getattr(before, name), getattr(after, name)), name
    assert after.root_link_pose_w[0, 2] < 0.39, "it did not fall"
    kinds = [shape for shape in dressed._model.shape_source if shape is not None]
    assert len(kinds) == 13


# The command ----------------------------------------------------------------------------------------------------------


def test_list_without_any_copy_is_no_error(capsys):
    assert main(["assets", "list"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("not found") == 3
    assert "LAB_MENAGERIE: not set" in printed
    assert "mujoco-menagerie prefetch anybotics_anymal_c unitree_g1 unitree_go2" in printed


def test_list_says_where_models_are(checkout, capsys):
    assert main(["assets", "list", "--menagerie", str(checkout)]) == 0
    printed = capsys.readouterr().out
    assert f"go2       unitree_go2/go2.xml              {checkout / 'unitree_go2' / 'go2.xml'}" in printed
    assert f"--menagerie: {checkout}" in printed
    assert "not found" not in printed and "pip install" not in printed


def test_path_prints_the_model_file_alone(checkout, capsys):
    assert main(["assets", "path", "go2", "--menagerie", str(checkout)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == with_full_meshes("go2", ROBOTS["go2"], checkout)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["path", "go2"], 1, "There is no full-mesh model of 'go2'"),
        (["path", "ant"], 1, "unknown robot 'ant'.*anymal_c, g1, go2"),
        (["path"], 2, "Path of which robot.*go2"),
        (["lst"], 2, "unknown action 'lst'. Did you mean 'list'"),
    ],
)
def test_mistakes_are_named(argv, code, message, capsys):
    assert main(["assets", *argv]) == code
    assert re.search(message, capsys.readouterr().err)


def test_help_explains_and_loads_nothing_heavy():
    script = (
        "import sys; from lab_core.cli import main; main(['--help']); main(['assets', '--help']);"
        "print(sorted({'torch', 'mujoco', 'newton', 'warp'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "Find full-mesh models" in printed and "lab assets path ROBOT" in printed
    assert printed.splitlines()[-1] == "[]"
