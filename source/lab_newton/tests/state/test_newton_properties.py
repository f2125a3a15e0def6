"""Randomised properties and external wrenches: what they do to the physics, world by world."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import mujoco
import pytest
import torch

from lab_core.errors import LabError
from lab_core.scene import ArticulationCfg, ArticulationData, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg, NewtonSolverCfg
from lab_newton.backend import NewtonBackend

ROVER = Path(__file__).parents[1] / "newton_assets" / "rover.xml"
G = 9.81
SLED = """
<mujoco>
  <worldbody>
    <body name="sled" pos="0 0 0.0499">
      <freejoint/>
      <geom type="box" size="0.2 0.2 0.05" mass="2" friction="0.5" {priority}/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def shared(make_rover) -> tuple[NewtonBackend, dict]:
    backend = make_rover(solver=MuJoCoSolverCfg(contacts=False))
    return backend, backend.state_dict()


@pytest.fixture
def rover(shared) -> Iterator[NewtonBackend]:
    """Three rovers in free fall. Restoring the state restores their properties too."""
    backend, fresh = shared
    backend.load_state_dict(fresh)
    yield backend


def robot(backend: NewtonBackend) -> ArticulationData:
    return backend.entities["robot"]


def body(backend: NewtonBackend, name: str) -> int:
    return robot(backend).body_names.index(name)


def engine(backend: NewtonBackend, name: str) -> torch.Tensor:
    """A field of MuJoCo Warp's model, one row per world."""
    return torch.from_numpy(getattr(backend.solver.inner.mjw_model, name).numpy())


def compiled(edit=lambda spec: None) -> mujoco.MjModel:
    """The rover, compiled by C MuJoCo after ``edit``."""
    spec = mujoco.MjSpec.from_file(str(ROVER))
    edit(spec)
    return spec.compile()


def test_properties_are_read_from_the_model(rover):
    data, model = robot(rover), compiled()
    for buffer, expected in (
        (data.body_mass, model.body_mass[1:]),
        (data.body_com_pos_b, model.body_ipos[1:]),
        (data.joint_armature, model.dof_armature[6:]),
        (data.joint_friction, model.dof_frictionloss[6:]),
        (data.body_friction, [0.8] * 4),
    ):
        want = torch.as_tensor(expected, dtype=torch.float32).expand(buffer.shape)
        torch.testing.assert_close(buffer.cpu(), want, atol=1e-6, rtol=1e-6)


def test_a_heavier_base_equals_a_model_compiled_with_it(rover):
    """Derived constants too; the other worlds keep theirs."""
    data, base = robot(rover), body(rover, "base")
    before = {name: engine(rover, name) for name in ("body_mass", "body_subtreemass", "body_invweight0")}
    data.body_mass[1, base] *= 2.0
    data.body_inertia_b[1, base] *= 2.0
    rover.notify("robot", "body_mass", "body_inertia_b")

    def heavier(spec: mujoco.MjSpec) -> None:
        spec.body("base").mass *= 2.0
        spec.body("base").inertia *= 2.0

    model = compiled(heavier)
    for name, old in before.items():
        now = engine(rover, name)
        expected = torch.as_tensor(getattr(model, name), dtype=torch.float32)
        torch.testing.assert_close(now[1], expected, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(now[[0, 2]], old[[0, 2]], rtol=1e-5, atol=1e-7)


def test_the_same_force_accelerates_a_lighter_world_more(rover, device):
    data = robot(rover)
    factors = torch.tensor([1.0, 2.0, 0.5], device=device)
    data.body_mass *= factors[:, None]
    data.body_inertia_b *= factors[:, None, None, None]
    data.joint_effort_limits.zero_()
    rover.notify("robot", "body_mass", "body_inertia_b")
    total = data.body_mass.sum(dim=1)
    data.body_wrench_w[:, body(rover, "base"), 2] = G * total[0]
    rover.step(1)
    momentum = (data.body_mass[..., None] * data.body_com_vel_w[..., :3]).sum(dim=1)
    expected = (G * total[0] / total - G) * rover.dt
    torch.testing.assert_close(momentum[:, 2] / total, expected, atol=1e-5, rtol=1e-3)


def test_a_moved_centre_of_mass_equals_a_model_compiled_with_it(rover):
    data, base = robot(rover), body(rover, "base")
    offset = torch.tensor([0.05, -0.04, 0.01])
    data.body_com_pos_b[2, base] += offset.to(rover.device)
    rover.notify("robot", "body_com_pos_b")
    rover.written.fill_(True)
    rover.forward()
    data.joint_stiffness.zero_()
    data.joint_damping.zero_()
    data.body_wrench_w[:, base, 2] = 100.0

    start = data.joint_pos.clone()
    rover.step(20)

    def moved(spec: mujoco.MjSpec) -> None:
        spec.body("base").ipos += offset.numpy()

    for world, model in ((0, compiled()), (2, compiled(moved))):
        state = mujoco.MjData(model)
        state.qpos[2] = 0.5
        state.qpos[7:] = start[world].cpu().numpy()
        state.xfrc_applied[1 + base, 2] = 100.0
        model.opt.timestep = rover.dt
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        for _ in range(20):
            mujoco.mj_step(model, state)
        found = torch.cat([data.root_link_pose_w[world, :3], data.joint_pos[world]])
        expected = torch.as_tensor([*state.qpos[:3], *state.qpos[7:]], dtype=torch.float32)
        torch.testing.assert_close(found.cpu(), expected, atol=2e-4, rtol=1e-3)


def test_armature_and_dry_friction_hold_a_joint_back(rover):
    """The free tail is pushed by 0.2 N m: armature slows it, friction above the push holds it."""
    data = robot(rover)
    tail = data.joint_names.index("tail")
    data.joint_effort_limits[:, tail] = 1.0
    data.joint_effort_target[:, tail] = 0.2
    data.joint_armature[1, tail] = 1.0
    data.joint_friction[2, tail] = 0.5
    rover.notify("robot", "joint_armature", "joint_friction")
    rover.step(4)
    plain, heavy, held = data.joint_vel[:, tail].tolist()
    assert heavy == pytest.approx(0.2 / 1.0 * 4 * rover.dt, rel=0.05)
    assert plain > 10.0 * heavy
    assert abs(held) < 0.1 * plain, "dry friction is a soft constraint: it creeps"


@pytest.fixture
def make_sled(tmp_path: Path, device: torch.device) -> Callable[[str], NewtonBackend]:
    """Builds sleds on the ground, with the attribute ``priority`` of their geom."""

    def make(priority: str) -> NewtonBackend:
        path = tmp_path / "sled.xml"
        path.write_text(SLED.format(priority=priority))
        init = InitialStateCfg(pos=(0.0, 0.0, 0.0499), joint_pos={}, joint_vel={})
        entity = ArticulationCfg(asset=str(path), actuators={}, init_state=init)
        solver = MuJoCoSolverCfg(cone="elliptic", impratio=10.0, njmax=32, nconmax=16)
        return NewtonBackend(NewtonCfg(dt=0.005, solver=solver), SceneCfg(entities={"robot": entity}), 3, device)

    return make


def test_friction_decides_how_far_a_sled_slides(make_sled):
    """From 2 m/s it stops after v^2 / (2 mu g); the ground's coefficient, 1, has no say."""
    sled = make_sled('priority="1"')
    data = robot(sled)
    assert data.body_friction.tolist() == [[0.5]] * 3
    data.body_friction[:, 0] = torch.tensor([0.2, 0.4, 0.8])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Friction")
        sled.notify("robot", "body_friction")
    data.root_com_vel_w[:, 0] = 2.0
    sled.written.fill_(True)
    sled.forward()
    for _ in range(75):
        sled.step(4)
    expected = 2.0**2 / (2.0 * data.body_friction[:, 0] * G)
    torch.testing.assert_close(data.root_link_pose_w[:, 0], expected, rtol=0.08, atol=0.0)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_friction_below_that_of_the_ground_is_said_to_be_without_effect(make_sled):
    sled = make_sled("")
    friction = robot(sled).body_friction
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Friction")
        sled.notify("robot", "body_friction")  # nothing changed
        friction.fill_(1.2)
        sled.notify("robot", "body_friction")
    friction[1] = 0.3
    with pytest.warns(UserWarning, match=r"Friction of 'robot' acts on the ground only where it .* 1: .* for sled\."):
        sled.notify("robot", "body_friction")


def test_an_unknown_property_is_named(rover):
    with pytest.raises(LabError, match="notify.'robot'.*'body_colour'.*body_mass"):
        rover.notify("robot", "body_colour")


def test_a_wrench_acts_on_its_world_until_the_reset(rover):
    data, base = robot(rover), body(rover, "base")
    before = data.root_com_vel_w.clone()
    data.body_wrench_w[1, base, 0] = 30.0
    rover.step(4)
    pushed = (data.root_com_vel_w - before)[:, 0]
    assert pushed[1] > 0.1
    torch.testing.assert_close(data.root_com_vel_w[0], data.root_com_vel_w[2], rtol=1e-4, atol=1e-4)
    rover.reset(torch.tensor([True, False, False], device=rover.device))
    assert data.body_wrench_w[1, base, 0] == 30.0
    rover.reset(torch.tensor([False, True, False], device=rover.device))
    assert not data.body_wrench_w.any()
    total = data.body_mass.sum(dim=1)

    def momentum() -> torch.Tensor:
        return (data.body_mass[..., None] * data.body_com_vel_w[..., :3]).sum(dim=1)[1, 0] / total[1]

    coasting = momentum()
    rover.step(4)
    torch.testing.assert_close(momentum(), coasting, atol=1e-4, rtol=1e-4)


def test_a_torque_turns_the_base(rover):
    data, base = robot(rover), body(rover, "base")
    data.body_wrench_w[:, base, 5] = torch.tensor([0.0, 0.5, -0.5])
    rover.step(2)
    still, left, right = data.root_ang_vel_b[:, 2].tolist()
    assert left - still > 1e-3
    assert right - still < -1e-3


def test_a_wrench_ends_when_its_world_goes_non_finite(rover):
    data, base = robot(rover), body(rover, "base")
    data.body_wrench_w[:, base, 0] = torch.tensor([1.0, math.nan, 1.0])
    rover.step(1)
    assert rover.non_finite.tolist() == [False, True, False]
    assert data.body_wrench_w[:, base, 0].tolist() == [1.0, 0.0, 1.0]
    rover.step(1)
    assert not rover.non_finite.any()


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_wrenches_reach_solvers_with_a_second_state(make_cart_pole):
    backend = make_cart_pole(solver=NewtonSolverCfg(name="SolverFeatherstone", contacts=False))
    data = robot(backend)
    data.body_wrench_w[:, 1, 1] = torch.tensor([0.0, 10.0, 20.0])
    data.joint_effort_limits.zero_()
    backend.step(1)
    once = data.joint_vel[:, 0].clone()
    assert 0.0 == once[0] < once[1] < once[2]
    backend.step(2)
    assert (data.joint_vel[1:, 0] > 2.5 * once[1:]).all(), "the wrench must act in every substep"


def test_a_saved_state_brings_its_masses_along(rover, make_rover, assert_same):
    first, second = rover, make_rover(solver=MuJoCoSolverCfg(contacts=False))
    data = robot(first)
    data.body_mass *= torch.tensor([1.0, 1.5, 0.7], device=rover.device)[:, None]
    data.joint_armature *= torch.tensor([1.0, 2.0, 3.0], device=rover.device)[:, None]
    first.notify("robot", "body_mass", "joint_armature")
    first.step(5)
    second.load_state_dict(first.state_dict())
    for backend in (first, second):
        backend.step(5)
    assert_same(first.state_dict(), second.state_dict())


def test_captured_and_eager_notices_agree(rover, make_rover, assert_same, monkeypatch):
    def run(backend: NewtonBackend) -> NewtonBackend:
        data = robot(backend)
        for factor in (1.5, 0.8):
            data.body_mass *= factor
            data.joint_friction += 0.01
            backend.notify("robot", "body_mass", "body_com_pos_b")
            backend.notify("robot", "joint_friction")
        backend.step(3)
        return backend

    captured = run(rover)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = run(make_rover(solver=MuJoCoSolverCfg(contacts=False)))
    for name in ("body_mass", "body_subtreemass", "dof_frictionloss", "body_invweight0"):
        torch.testing.assert_close(engine(captured, name), engine(eager, name), rtol=1e-4, atol=0.0)
    assert_same(captured.state_dict(), eager.state_dict())
