"""What a model file says against what C MuJoCo makes of it: parameters of joints, bodies and shapes, and friction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from lab_core.scene import ArticulationCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

MODEL = """
<mujoco model="everything">
  <compiler angle="degree" autolimits="true"/>
  <default>
    <joint armature="0.01" damping="0.2" frictionloss="0.05"/>
    <geom friction="0.7 0.01 0.002" solref="0.03 0.9" solimp="0.85 0.97 0.002 0.4 2" condim="4" density="700"/>
    <default class="foot"><geom condim="6" priority="2" solmix="3" friction="0.9 0.03 0.004"/></default>
  </default>
  <worldbody>
    <body name="base" pos="0 0 0.5">
      <freejoint/>
      <inertial pos="0.01 0.02 0.03" mass="3" fullinertia="0.03 0.04 0.05 0.001 0.002 -0.001"/>
      <geom name="hull" type="capsule" size="0.1 0.1" condim="1"/>
      <body name="leg" pos="0.2 0.1 0" euler="10 20 30" gravcomp="0.5">
        <joint name="hip" axis="0 1 0" pos="0 0 0.01" range="-40 50" solreflimit="0.03 0.8"
               solimplimit="0.8 0.9 0.01 0.5 2" stiffness="3" springref="10" margin="0.01"/>
        <geom name="thigh" type="capsule" size="0.03" fromto="0 0 0 0 0 -0.2" mass="0.4"/>
        <body name="shank" pos="0 0 -0.2">
          <joint name="slide" axis="0 0 1" type="slide" range="-0.05 0.05" damping="2" frictionloss="0.4"
                 solreffriction="0.04 1" solimpfriction="0.8 0.9 0.01 0.5 2"/>
          <geom name="rod" type="capsule" size="0.02 0.05"/>
          <body name="foot" pos="0 0 -0.1"><geom name="sole" class="foot" size="0.04"/></body>
        </body>
      </body>
      <body name="tail" pos="-0.2 0.1 0">
        <joint name="tail" axis="0 0 1" range="-90 90" ref="5" damping="0" armature="0.002"/>
        <geom name="tip" class="foot" size="0.04" pos="-0.2 0 0" mass="0.1"/>
      </body>
    </body>
  </worldbody>
  <contact><exclude body1="base" body2="foot"/></contact>
</mujoco>
"""
JOINTS = (
    *("jnt_type", "jnt_limited", "jnt_pos", "jnt_axis", "jnt_solref", "jnt_solimp", "jnt_margin", "jnt_stiffness"),
    *("dof_armature", "dof_damping", "dof_frictionloss", "dof_solref", "dof_solimp"),
)
BODIES = ("body_parentid", "body_mass", "body_ipos", "body_gravcomp")
GEOMS = ("condim", "priority", "friction", "solref", "solimp", "margin", "gap", "solmix", "pos")


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("parity") / "everything.xml"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def reference(file) -> mujoco.MjModel:
    """On the plane of a scene, whose friction is 1."""
    spec = mujoco.MjSpec.from_file(str(file))
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[5.0, 5.0, 0.1],
        condim=3,
        friction=[1.0, 0.005, 0.0001],
        solref=[0.02, 1.0],
        solimp=[0.9, 0.95, 0.001, 0.5, 2.0],
    )
    return spec.compile()


def build(file: Path, collisions: str) -> NewtonBackend:
    robot = ArticulationCfg(asset=str(file), actuators={}, init_state=InitialStateCfg(pos=(0.0, 0.0, 0.5)))
    solver = MuJoCoSolverCfg(cone="elliptic", impratio=10.0, njmax=100, nconmax=32, collisions=collisions)
    return NewtonBackend(
        NewtonCfg(dt=0.002, solver=solver), SceneCfg(entities={"robot": robot}), 1, torch.device("cpu")
    )


@pytest.fixture(scope="module", params=["mujoco", "newton"])
def backend(request, file) -> Iterator[NewtonBackend]:
    """Contacts found by MuJoCo Warp, or by Newton."""
    backend = build(file, request.param)
    yield backend
    backend.close()


def test_parameters_are_those_of_the_file(backend, reference):
    compiled, warp = backend.solver.inner.mj_model, backend.solver.inner.mjw_model
    for name in (*BODIES, *JOINTS):
        assert getattr(compiled, name) == pytest.approx(getattr(reference, name), rel=1e-5, abs=1e-6), name
    limited = reference.jnt_limited.astype(bool)
    assert compiled.jnt_range[limited] == pytest.approx(reference.jnt_range[limited], abs=1e-6)
    assert compiled.qpos_spring[7:] == pytest.approx(reference.qpos_spring[7:], abs=1e-6)
    assert compiled.qpos0[7:] == pytest.approx(reference.qpos0[7:], abs=1e-6)
    for name in ("jnt_stiffness", "dof_damping", "dof_frictionloss", "jnt_solref", "dof_solimp", "geom_friction"):
        assert getattr(warp, name).numpy()[0] == pytest.approx(getattr(compiled, name), rel=1e-5, abs=1e-6), name


def test_shapes_are_those_of_the_file(backend, reference):
    compiled = backend.solver.inner.mj_model
    key = {(m, int(m.geom_bodyid[i]), int(m.geom_type[i])): i for m in (compiled, reference) for i in range(m.ngeom)}
    assert compiled.ngeom == reference.ngeom == len(key) / 2
    for (model, body, kind), i in key.items():
        for name in GEOMS:
            expected = getattr(reference, f"geom_{name}")[key[reference, body, kind]]
            assert getattr(model, f"geom_{name}")[i] == pytest.approx(expected, rel=1e-5, abs=1e-6), (body, name)


def test_feet_touch_neither_their_thighs_nor_what_the_file_excludes(backend):
    """A foot that is fixed to its shank is part of it, and a shank does not touch its thigh."""
    model, data = backend._model, backend.entities["robot"]
    names = ("ground", *data.body_names)
    bodies = model.shape_body.numpy()[model.shape_contact_pairs.numpy()]
    pairs = {frozenset(names[body + 1] for body in pair) for pair in bodies.tolist()}
    grounded = {frozenset({"ground", name}) for name in data.body_names}
    assert pairs == grounded | {frozenset({"base", "shank"})} | {
        frozenset({"tail", part}) for part in ("leg", "shank", "foot")
    }


def test_positions_count_from_the_pose_of_the_file(backend, reference):
    """MuJoCo counts from a joint's ``ref``."""
    data = backend.entities["robot"]
    ref = reference.qpos0[7:]
    assert ref[2] == pytest.approx(math.radians(5.0))
    assert not data.default_joint_pos.any()
    assert data.joint_pos_limits[0].numpy() == pytest.approx(reference.jnt_range[1:] - ref[:, None], abs=1e-6)


def test_it_moves_as_in_c_mujoco(backend, reference):
    """It falls, slides and rolls, with the friction of the file, whoever finds the contacts."""
    data = backend.entities["robot"]
    data.root_com_vel_w.copy_(torch.tensor([[1.5, 0.5, -1.0, 0.0, 1.0, 2.0]]))
    data.joint_pos.copy_(torch.tensor([[0.3, 0.02, -0.5]]))
    backend.mark_written(torch.ones(1, dtype=torch.bool))
    backend.forward()

    model, state = backend.solver.inner.mj_model, mujoco.MjData(reference)
    options = reference.opt
    options.timestep, options.gravity = backend.dt, model.opt.gravity
    options.integrator, options.cone, options.impratio = model.opt.integrator, model.opt.cone, model.opt.impratio
    options.tolerance, options.ls_tolerance = 1e-10, 1e-6
    state.qpos[2] = 0.5
    ref = reference.qpos0[7:]
    state.qpos[7:] = data.joint_pos[0].numpy() + ref
    angular, com = np.array([0.0, 1.0, 2.0]), data.body_com_pos_b[0, 0].numpy()
    state.qvel[:3] = np.array([1.5, 0.5, -1.0]) - np.cross(angular, com)
    state.qvel[3:6] = angular
    touched = 0
    for step in range(250):
        backend.step(1)
        mujoco.mj_step(reference, state)
        touched += state.ncon > 0
        assert data.joint_pos[0].numpy() == pytest.approx(state.qpos[7:] - ref, abs=1e-3), step
        assert data.root_link_pose_w[0, :3].numpy() == pytest.approx(state.qpos[:3], abs=1e-3), step
    assert touched > 100
    assert backend.health().ok
