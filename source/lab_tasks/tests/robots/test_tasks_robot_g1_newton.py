"""The G1 in the Newton backend: its model against C MuJoCo's, and what its gains do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.resources import files

import mujoco
import pytest
import torch

from lab_core.names import values_by_name
from lab_core.scene import ArticulationData, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_tasks.robots.g1 import g1_cfg

NOMINAL, STIFF, LIMP = range(3)


@pytest.fixture(scope="module")
def newton() -> Iterator[NewtonBackend]:
    """Three robots: with the robot's gains, with ten times the stiffness, and without."""
    scene = SceneCfg(entities={"robot": g1_cfg()})
    solver = MuJoCoSolverCfg(njmax=250, nconmax=40, strict_capacity=True)
    backend = NewtonBackend(NewtonCfg(dt=0.005, solver=solver), scene, 3, torch.device("cpu"))
    yield backend
    backend.close()


def test_newton_model(newton):
    reference = mujoco.MjModel.from_xml_path(str(files("lab_tasks") / "robots/g1/g1.xml"))
    state = mujoco.MjData(reference)
    data: ArticulationData = newton.entities["robot"]
    assert not data.fixed_base
    assert data.joint_names == tuple(reference.joint(i).name for i in range(1, reference.njnt))
    assert data.body_names == tuple(reference.body(i).name for i in range(1, reference.nbody))

    init = g1_cfg().init_state
    state.qpos[:7] = [*init.pos, 1.0, 0.0, 0.0, 0.0]
    state.qpos[7:] = values_by_name(init.joint_pos, data.joint_names, what="joint")
    mujoco.mj_kinematics(reference, state)
    for found, expected in (
        (data.body_mass, reference.body_mass[1:]),
        (data.joint_armature, reference.dof_armature[6:]),
        (data.joint_pos_limits, reference.jnt_range[1:]),
        (data.body_link_pose_w[..., :3], state.xpos[1:]),
    ):
        want = torch.as_tensor(expected, dtype=torch.float32).expand_as(found)
        torch.testing.assert_close(found, want, atol=1e-5, rtol=1e-5)


def test_newton_standing(newton):
    """The robot's own gains are too soft to stand without a policy; stiff joints hold the pose, limp ones collapse."""
    data: ArticulationData = newton.entities["robot"]
    data.joint_stiffness[STIFF] *= 10.0
    data.joint_stiffness[LIMP] = 0.0
    data.joint_pos_target.copy_(data.default_joint_pos)
    newton.step(200)
    height, tilt = height_and_tilt(data)
    assert height[NOMINAL] == pytest.approx(0.686, abs=0.01)
    assert tilt[NOMINAL] == pytest.approx(14.6, abs=1.5)
    assert height[STIFF] == pytest.approx(0.757, abs=0.01)
    assert tilt[STIFF] < 5.0
    assert height[LIMP] < 0.4
    newton.step(200)
    height, tilt = height_and_tilt(data)
    assert height[NOMINAL] < 0.4
    assert height[STIFF] == pytest.approx(0.757, abs=0.01)
    assert tilt[STIFF] < 5.0
    assert newton.health().ok


def height_and_tilt(data: ArticulationData) -> tuple[list[float], list[float]]:
    """Returns pelvis heights [m] and the pelvis's angles to the vertical [deg]."""
    cosine = -data.projected_gravity_b[:, 2]
    return data.root_link_pose_w[:, 2].tolist(), [math.degrees(math.acos(min(c, 1.0))) for c in cosine.tolist()]
