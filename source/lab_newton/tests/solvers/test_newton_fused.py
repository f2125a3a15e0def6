"""The constraint solve in one kernel against a cost in double precision, and against MuJoCo Warp's own solve."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import mujoco_warp
import newton
import numpy as np
import pytest
import torch
import warp as wp
from newton.solvers import SolverMuJoCo

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.solvers import constraint_problems
from lab_newton.solvers.fused import unsupported
from lab_newton.solvers.fused.newton_kernels import solve_kernel

NUM_WORLDS = 24
ROBOT = """
<mujoco>
  <compiler angle="radian"/>
  <default><joint armature="0.01" damping="0.05"/><geom friction="0.8 0.02 0.003"/></default>
  <worldbody>
    <body name="base" pos="0 0 0.3">
      <freejoint/>
      <geom name="hull" type="box" size="0.15 0.1 0.04" mass="2" condim="3"/>
      <body name="left" pos="0.1 0.12 0">
        <joint name="left" axis="0 1 0" range="-0.5 0.6" frictionloss="0.3"/>
        <geom name="left" type="capsule" size="0.03" fromto="0 0 0 0 0 -0.2" mass="0.4" condim="4"/>
        <body name="toe" pos="0 0 -0.2"><joint name="toe" axis="1 0 0" range="-0.4 0.4"/>
          <geom name="toe" size="0.04" mass="0.1" condim="6"/></body>
      </body>
      <body name="right" pos="0.1 -0.12 0">
        <joint name="right" axis="0 1 0" range="-0.5 0.6" frictionloss="0.2"/>
        <geom name="right" type="capsule" size="0.03" fromto="0 0 0 0 0 -0.2" mass="0.4" condim="1"/>
      </body>
    </body>
  </worldbody>
  <equality><joint joint1="right" joint2="left" polycoef="0 0.8 0 0 0"/></equality>
</mujoco>
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("fused") / "robot.xml"
    path.write_text(ROBOT)
    return path


def build(file: Path, device: str = "cpu", **settings) -> NewtonBackend:
    robot = ArticulationCfg(asset=str(file), actuators={}, init_state=InitialStateCfg(pos=(0.0, 0.0, 0.3)))
    solver = MuJoCoSolverCfg(**{"njmax": 120, "nconmax": 24, "tolerance": 1e-8, **settings})
    scene = SceneCfg(entities={"robot": robot})
    return NewtonBackend(NewtonCfg(dt=0.004, solver=solver), scene, NUM_WORLDS, torch.device(device))


def rows_of_cut_contacts(d: mujoco_warp.Data, world: int) -> list[int]:
    """Rows of elliptic contacts that have others which did not fit."""
    rows = []
    for contact in range(int(d.nacon.numpy()[0])):
        first, dim = int(d.contact.efc_address.numpy()[contact, 0]), int(d.contact.dim.numpy()[contact])
        if d.contact.worldid.numpy()[contact] == world and 0 <= first < d.njmax < first + dim:
            rows += [row for row in range(first, d.njmax) if d.efc.type.numpy()[world, row] == 7]
    return rows


def prepare(backend: NewtonBackend) -> None:
    """Everything of a step that comes before the constraints."""
    m, d = backend.solver.inner.mjw_model, backend.solver.inner.mjw_data
    mujoco_warp.fwd_position(m, d, factorize=False)
    mujoco_warp.fwd_velocity(m, d)
    mujoco_warp.fwd_actuation(m, d)
    mujoco_warp.fwd_acceleration(m, d, factorize=True)


def tumble(backend: NewtonBackend, steps: int, seed: int) -> None:
    """Throws every robot another way, and lets it fall."""
    generator = torch.Generator().manual_seed(seed)
    data = backend.entities["robot"]
    data.root_com_vel_w.copy_(3.0 * torch.randn(NUM_WORLDS, 6, generator=generator))
    backend.mark_written(torch.ones(NUM_WORLDS, dtype=torch.bool, device=data.joint_pos.device))
    backend.forward()
    for _ in range(steps):
        effort = 4.0 * torch.randn(data.joint_effort_target.shape, generator=generator)
        data.joint_effort_target.copy_(effort)
        backend.step(1)


SETTINGS = {
    "pyramidal": {"cone": "pyramidal"},
    "elliptic": {"cone": "elliptic"},
    "stiff friction": {"cone": "elliptic", "impratio": 100.0},
    "too few rows": {"cone": "pyramidal", "njmax": 20},
    "too few rows for cones": {"cone": "elliptic", "njmax": 13},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_finds_the_minimum_as_well_as_mujoco_warp(file, name):
    """No cost is higher than MuJoCo Warp's by more than rounding, no gradient larger, in any world."""
    backend = build(file, **SETTINGS[name])
    solver = backend.solver.inner
    m, d = solver.mjw_model, solver.mjw_data
    seen = {"rows": 0, "cones": 0, "overflows": 0, "cut": 0}
    for seed in range(6):
        tumble(backend, 12, seed)
        prepare(backend)
        mujoco_warp.solve(m, d)
        theirs, states = d.qacc.numpy().astype(float), d.efc.state.numpy()
        smooth = d.qacc_smooth.numpy()
        for array in (d.qacc, d.qacc_smooth, d.qfrc_constraint, d.efc.Ma, d.efc.force):
            array.fill_(9.0)
        solver.fused()
        np.testing.assert_allclose(d.qacc_smooth.numpy(), smooth, rtol=1e-4, atol=1e-5 * np.abs(smooth).max())
        for world, problem in enumerate(constraint_problems(m, d)):
            own = d.qacc.numpy()[world].astype(float)
            rows = len(problem.reference)
            (cost, gradient), (cost_theirs, gradient_theirs) = map(problem.cost_and_gradient, (own, theirs[world]))
            size = np.trace(problem.inertia)
            if d.nefc.numpy()[world] > d.njmax:  # contacts that lost some of their rows are nobody's problem
                seen["overflows"] += 1
                assert np.isfinite(own).all()
                cut = rows_of_cut_contacts(d, world)
                seen["cut"] += len(cut)
                assert not d.efc.force.numpy()[world, cut].any()
                continue
            assert cost - cost_theirs < 2e-7 * size + 1e-6 * abs(cost), (seed, world)
            allowed = max(1.5 * np.linalg.norm(gradient_theirs), problem.rounding(own))
            assert np.linalg.norm(gradient) < allowed, (seed, world)
            force = d.efc.force.numpy()[world, :rows]
            assert problem.jacobian.T @ force == pytest.approx(d.qfrc_constraint.numpy()[world], abs=1e-3, rel=1e-4)
            assert problem.inertia @ own == pytest.approx(d.efc.Ma.numpy()[world], abs=1e-3, rel=1e-4)
            assert (d.efc.state.numpy()[world, :rows] == states[world, :rows]).mean() > 0.9
            seen["rows"] += rows
            seen["cones"] += len(problem.contacts)
    assert seen["rows"] > 500
    assert (seen["cones"] > 20) == (SETTINGS[name]["cone"] == "elliptic")
    assert (seen["overflows"] > 0) == name.startswith("too few")
    assert (seen["cut"] > 0) == (name == "too few rows for cones")
    backend.close()


@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_a_step_is_that_of_mujoco_warp(file, cone):
    """From the same states."""
    fused, plain = (build(file, cone=cone, fused=value) for value in (True, False))
    for seed in range(5):
        tumble(plain, 6, seed)
        fused.load_state_dict(plain.state_dict())
        for backend in (fused, plain):
            backend.step(1)
        ends = fused.state_dict(), plain.state_dict()
        for name in ("joint_q", "joint_qd"):
            own, theirs = (next(value for key, value in end.items() if key.endswith(name)) for end in ends)
            torch.testing.assert_close(own, theirs, atol=2e-4, rtol=1e-4)
    for backend in (fused, plain):
        backend.close()


@pytest.mark.gpu
@pytest.mark.parametrize("cone", ["pyramidal", "elliptic"])
def test_threads_of_a_gpu_find_what_a_cpu_finds(file, cone):
    gpu, cpu = build(file, "cuda:0", cone=cone, fused=True), build(file, "cpu", cone=cone)
    for seed in range(5):
        tumble(cpu, 8, seed)
        gpu.load_state_dict({name: value.to("cuda:0") for name, value in cpu.state_dict().items()})
        for backend in (gpu, cpu):
            backend.step(1)
        data, own = (backend.entities["robot"] for backend in (cpu, gpu))
        torch.testing.assert_close(own.joint_vel.cpu(), data.joint_vel, atol=2e-3, rtol=1e-3)
    for backend in (gpu, cpu):
        backend.close()


@pytest.mark.gpu
def test_it_repeats_bit_for_bit_on_a_gpu(file):
    backend = build(file, "cuda:0", cone="elliptic", fused=True)
    tumble(backend, 10, 0)
    prepare(backend)
    solver = backend.solver.inner
    ends = []
    for _ in range(3):
        solver.fused()
        ends.append(solver.mjw_data.qacc.numpy())
    assert (ends[0] == ends[1]).all() and (ends[0] == ends[2]).all()
    backend.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="Warp has no compiler for CUDA there")
@pytest.mark.parametrize("cones", [False, True])
def test_it_compiles_for_a_gpu_on_a_machine_without_one(cones, tmp_path):
    kernel = solve_kernel.__wrapped__(cones)
    paths = wp.compile_aot_module(kernel.module, arch=90, module_dir=tmp_path, use_ptx=True)
    assert "ld.global.v4" in next(path for path in paths if path.suffix == ".ptx").read_text()


def test_it_needs_no_more_iterations_than_mujoco_warp(file):
    """A Hessian that is wrong still leads to the minimum, slowly."""
    backend = build(file, cone="elliptic")
    solver = backend.solver.inner
    m, d = solver.mjw_model, solver.mjw_data
    own, theirs = 0, 0
    for seed in range(4):
        tumble(backend, 12, seed)
        prepare(backend)
        mujoco_warp.solve(m, d)
        theirs += int(d.solver_niter.numpy().sum())
        solver.fused()
        own += int(d.solver_niter.numpy().sum())
    assert own <= 1.05 * theirs
    backend.close()


def test_what_it_cannot_do_is_done_by_mujoco_warp(file):
    for settings, reason in (
        ({"solver": "cg"}, "it has only Newton's method"),
        ({"integrator": "rk4"}, "it has no Runge-Kutta integrator"),
        ({"jacobian": "sparse"}, "the Jacobian is sparse"),
    ):
        backend = build(file, **settings)
        solver = backend.solver.inner
        assert solver.fused is None
        assert unsupported(solver.mjw_model, solver.mjw_data) == reason
        assert f"constraints in many kernels ({reason})" in backend.description
        backend.close()
        with pytest.raises(ConfigError, match=f"physics.solver.fused is True.*{reason}"):
            build(file, fused=True, **settings)
    backend = build(file, fused=False)
    assert backend.solver.inner.fused is None
    assert "(MuJoCo Warp)" in backend.description
    backend.close()


def test_the_release_of_newton_steps_as_it_was_read():
    """Newton calls ``mujoco_warp.step`` in one private method, which is overridden."""
    assert newton.__version__ == "1.8.0", "read SolverMuJoCo._mujoco_warp_step and mujoco_warp.forward again"
    source = inspect.getsource(SolverMuJoCo._mujoco_warp_step)
    assert source.count("_mujoco_warp.step(self.mjw_model, self.mjw_data)") == 1
    stages = inspect.getsource(inspect.unwrap(mujoco_warp.forward))
    order = ["fwd_position", "fwd_velocity", "fwd_actuation", "fwd_acceleration", "solver.solve", "rne_postconstraint"]
    places = [stages.index(name + "(m, d") for name in order]
    assert places == sorted(places)
