"""Ant, Go2 and ANYmal C in the Newton backend: their models against C MuJoCo's, and how they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.resources import files

import mujoco
import numpy as np
import pytest
import torch

from lab_core.names import values_by_name
from lab_core.scene import ArticulationCfg, ArticulationData, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_tasks.robots.ant import ant_cfg
from lab_tasks.robots.anymal_c import anymal_c_cfg
from lab_tasks.robots.go2 import go2_cfg


def make(cfg: ArticulationCfg, dt: float, solver: MuJoCoSolverCfg) -> NewtonBackend:
    return NewtonBackend(NewtonCfg(dt=dt, solver=solver), SceneCfg(entities={"robot": cfg}), 2, torch.device("cpu"))


@pytest.fixture(scope="module")
def ant() -> Iterator[NewtonBackend]:
    backend = make(ant_cfg(), 1.0 / 120.0, MuJoCoSolverCfg(njmax=80, nconmax=50, strict_capacity=True))
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def go2() -> Iterator[NewtonBackend]:
    backend = make(go2_cfg(), 0.005, MuJoCoSolverCfg(njmax=120, nconmax=60, strict_capacity=True, cone="elliptic"))
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def anymal_c() -> Iterator[NewtonBackend]:
    solver = MuJoCoSolverCfg(njmax=400, nconmax=150, strict_capacity=True, cone="elliptic", impratio=100.0)
    backend = make(anymal_c_cfg(drive="dc_motor"), 0.005, solver)
    yield backend
    backend.close()


def reference_model(cfg: ArticulationCfg) -> mujoco.MjModel:
    """Returns the robot's model on a plane, compiled by C MuJoCo."""
    package, _, inside = cfg.asset.partition(":")
    spec = mujoco.MjSpec.from_file(str(files(package) / inside))
    spec.worldbody.add_geom(name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5.0, 5.0, 0.1])
    return spec.compile()


def check_model(backend: NewtonBackend, cfg: ArticulationCfg, model: mujoco.MjModel) -> None:
    data: ArticulationData = backend.entities["robot"]
    assert not data.fixed_base
    assert data.joint_names == tuple(model.joint(i).name for i in range(1, model.njnt))
    assert data.body_names == tuple(model.body(i).name for i in range(1, model.nbody))
    state = mujoco.MjData(model)
    state.qpos[:7] = [*cfg.init_state.pos, 1.0, 0.0, 0.0, 0.0]
    state.qpos[7:] = values_by_name(cfg.init_state.joint_pos, data.joint_names, what="joint")
    mujoco.mj_kinematics(model, state)
    for found, expected in (
        (data.body_mass, model.body_mass[1:]),
        (data.joint_armature, model.dof_armature[6:]),
        (data.joint_pos_limits, model.jnt_range[1:]),
        (data.body_link_pose_w[..., :3], state.xpos[1:]),
    ):
        want = torch.as_tensor(expected, dtype=torch.float32).expand_as(found)
        torch.testing.assert_close(found, want, atol=1e-5, rtol=1e-5)


def check_rigid_body_properties(backend: NewtonBackend, model: mujoco.MjModel) -> None:
    """Centres of mass and inertias, which MuJoCo keeps in principal axes."""
    data: ArticulationData = backend.entities["robot"]
    for i, name in enumerate(data.body_names):
        body = model.body(name)
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, body.iquat)
        axes = rotation.reshape(3, 3)
        inertia = axes @ np.diag(body.inertia) @ axes.T
        assert data.body_com_pos_b[0, i].numpy() == pytest.approx(body.ipos, abs=1e-6), name
        assert data.body_inertia_b[0, i].numpy() == pytest.approx(inertia, rel=1e-4, abs=1e-6), name


def test_ant_model(ant):
    model = reference_model(ant_cfg())
    check_model(ant, ant_cfg(), model)
    check_rigid_body_properties(ant, model)


def test_ant_rests_on_its_ankle_limits(ant):
    """Limp legs give way until the ankles reach 30 degrees; the torso is then 0.5657 sin(30) + 0.08 m high."""
    data: ArticulationData = ant.entities["robot"]
    ant.step(480)
    assert ant.health().ok
    ankles = data.joint_pos[:, [data.joint_names.index(name) for name in data.joint_names if name.endswith("foot")]]
    torch.testing.assert_close(ankles.abs(), torch.full_like(ankles, math.pi / 6), atol=1e-3, rtol=0.0)
    assert data.root_link_pose_w[:, 2].tolist() == pytest.approx([0.3628] * 2, abs=1e-3)


def test_go2_model(go2):
    model = reference_model(go2_cfg())
    check_model(go2, go2_cfg(), model)
    check_rigid_body_properties(go2, model)


def test_go2_sags_to_its_published_height(go2):
    """After 4 s of default targets from 0.4 m: height 0.261 m, pitch 1.5 deg, error 0.249 rad, effort 6.2 N m."""
    data: ArticulationData = go2.entities["robot"]
    data.joint_pos_target.copy_(data.default_joint_pos)
    go2.step(800)
    assert go2.health().ok
    assert data.root_link_pose_w[:, 2].tolist() == pytest.approx([0.261] * 2, abs=0.005)
    pitch = torch.asin(data.projected_gravity_b[:, 0]).rad2deg()
    assert pitch.tolist() == pytest.approx([1.5] * 2, abs=0.2)  # 1.32 deg here
    error = (data.joint_pos - data.default_joint_pos).abs().amax(dim=1)
    assert error.tolist() == pytest.approx([0.249] * 2, rel=0.05)
    assert data.applied_effort.abs().amax(dim=1).tolist() == pytest.approx([6.2] * 2, rel=0.05)


def test_anymal_c_model(anymal_c):
    model = reference_model(anymal_c_cfg(drive="dc_motor"))
    check_model(anymal_c, anymal_c_cfg(drive="dc_motor"), model)
    check_rigid_body_properties(anymal_c, model)
    assert anymal_c.entities["robot"].body_mass.sum(dim=1).tolist() == pytest.approx([52.13485] * 2, abs=1e-4)


def test_anymal_c_stands_as_in_c_mujoco(anymal_c):
    """With stiff joints it keeps standing on its feet, and C MuJoCo agrees on the height; limp it does not stand."""
    stiffness, damping, seconds = 150.0, 5.0, 1.0
    steps = round(seconds / anymal_c.dt)
    data: ArticulationData = anymal_c.entities["robot"]
    data.joint_stiffness[0] = stiffness
    data.joint_stiffness[1] = 0.0
    data.joint_pos_target.copy_(data.default_joint_pos)
    anymal_c.step(steps)
    assert anymal_c.health().ok

    model = reference_model(anymal_c_cfg(drive="dc_motor"))
    model.opt.timestep = anymal_c.dt
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    model.opt.impratio = 100.0
    state = mujoco.MjData(model)
    target = data.default_joint_pos[0].numpy()
    state.qpos[:7] = [*anymal_c_cfg(drive="dc_motor").init_state.pos, 1.0, 0.0, 0.0, 0.0]
    state.qpos[7:] = target
    for _ in range(steps):
        state.qfrc_applied[6:] = stiffness * (target - state.qpos[7:]) - damping * state.qvel[6:]
        mujoco.mj_step(model, state)
    standing, limp = data.root_link_pose_w[:, 2].tolist()
    assert standing == pytest.approx(state.qpos[2], abs=0.003)
    assert standing > 0.5
    assert limp < 0.3


def test_anymal_c_settles_at_its_published_height():
    """After 4 s of default targets from 0.6 m with a stiffness of 150 and rotors of 0.06 kg m^2: height 0.495 m, error
    0.137 rad, effort 20.5 N m. With its own 40 it sinks, and still does so after 4 s."""
    robot = anymal_c_cfg(variant="menagerie", drive="dc_motor")
    backend = make(robot, 0.005, MuJoCoSolverCfg(njmax=200, nconmax=40, strict_capacity=True))
    data: ArticulationData = backend.entities["robot"]
    data.joint_stiffness[0] = 150.0
    data.joint_armature[0] = 0.06
    backend.notify("robot", "joint_armature")
    data.joint_pos_target.copy_(data.default_joint_pos)
    backend.step(800)
    # Friction that creeps decides how far the feet slide apart: 1 cm.
    assert data.root_link_pose_w[0, 2].item() == pytest.approx(0.495, abs=0.01)
    error = (data.joint_pos[0] - data.default_joint_pos[0]).abs().max()
    assert error.item() == pytest.approx(0.137, abs=0.015)
    assert data.applied_effort[0].abs().max().item() == pytest.approx(20.5, abs=2.0)
    assert data.root_link_pose_w[1, 2] < 0.4
    backend.close()
