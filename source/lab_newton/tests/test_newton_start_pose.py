"""Robots that start inside of the ground are told, with the height that would do."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import newton
import numpy as np
import pytest
import torch

from lab_core.scene import ArticulationCfg, ArticulationData, GroundCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.start_pose import DEPTH, reach

MESH = '<asset><mesh name="m" vertex="-1 -1 -1 1 -1 -1 0 1 -1 0 0 1.5" scale="0.1 0.1 0.1"/></asset>'
PLANAR = '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>'
FLOOR = '<geom type="plane" size="0 0 1"/>'


def start(folder: Path, shape: str, root: str = "<freejoint/>", ground: bool = True, **settings) -> NewtonBackend:
    path = folder / "robot.xml"
    floor = "" if ground else FLOOR
    foot = f'<body name="foot" pos="0 0 -0.5"><joint name="j" axis="0 1 0"/>{shape}</body>'
    trunk = f'<body name="trunk" pos="0.1 0 0.3">{root}<geom size="0.1"/>{foot}</body>'
    path.write_text(f"<mujoco>{MESH}<worldbody>{floor}{trunk}</worldbody></mujoco>")
    cfg = ArticulationCfg(asset=str(path), actuators={}, **settings)
    scene = SceneCfg(entities={"robot": cfg}, ground=GroundCfg() if ground else None)
    return NewtonBackend(
        NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=64, nconmax=24)), scene, 2, torch.device("cpu")
    )


@pytest.mark.parametrize(
    ("kind", "size", "direction", "expected"),
    [
        (newton.GeoType.SPHERE, (0.05, 0.0, 0.0), (0.0, 0.6, 0.8), 0.05),
        (newton.GeoType.CAPSULE, (0.05, 0.1, 0.0), (0.0, 0.6, -0.8), 0.05 + 0.08),
        (newton.GeoType.BOX, (0.1, 0.2, 0.05), (0.0, 0.6, -0.8), 0.12 + 0.04),
        (newton.GeoType.CYLINDER, (0.05, 0.1, 0.0), (0.0, 0.6, -0.8), 0.03 + 0.08),
        (newton.GeoType.ELLIPSOID, (0.3, 0.4, 0.1), (0.0, 0.6, 0.8), math.hypot(0.24, 0.08)),
    ],
)
def test_every_shape_reaches_as_far_as_it_does(kind, size, direction, expected: float) -> None:
    assert reach(kind, np.array(size), None, np.array(direction)) == pytest.approx(expected)


def test_the_height_that_would_do_is_told(tmp_path: Path) -> None:
    told = r"Entity 'robot': .*starts inside of the ground, body 'foot' 0\.3 m deep.*pos to \(0\.1, 0, 0\.6\)"
    capsule = '<geom type="capsule" size="0.05 0.1" euler="0 60 0"/>'
    with pytest.warns(UserWarning, match=told):
        start(tmp_path, capsule)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(tmp_path, capsule, init_state=InitialStateCfg(pos=(0.1, 0.0, 0.6)))


def test_a_planar_robot_on_the_floor_of_its_file_stands_where_it_is_told_to(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"body 'foot' .* init_state.pos to \(0.1, 0, 0.6\)"):
        start(tmp_path, '<geom type="mesh" mesh="m"/>', PLANAR, ground=False)
    backend = start(
        tmp_path, '<geom size="0.1"/>', PLANAR, ground=False, init_state=InitialStateCfg(pos=(0.1, 0.0, 0.6))
    )
    data = backend.entities["robot"]
    assert isinstance(data, ArticulationData)
    backend.step(20)
    assert data.root_link_pose_w[0, 2] == pytest.approx(0.6, abs=0.01), "it stands there"


@pytest.mark.parametrize(
    ("shape", "root", "height"),
    [
        ('<geom size="0.1"/>', "", 0.3),  # what is fixed may stand in the ground
        ('<geom size="0.1" contype="0" conaffinity="0"/>', "<freejoint/>", 0.3),  # what touches nothing, too
        ('<geom size="0.1"/>', "<freejoint/>", 0.6 - 0.9 * DEPTH),
    ],
)
def test_nothing_is_told_where_nothing_is_wrong(tmp_path: Path, shape: str, root: str, height: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(tmp_path, shape, root, init_state=InitialStateCfg(pos=(0.1, 0.0, height)))
