"""Joint wrenches, inertial units and transforms against mechanics."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.math import quat_apply, quat_apply_inverse
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSensorCfg, FrameTransformCfg, ImuCfg, JointWrenchCfg, SensorCfg
from lab_core.testing import check_masked_reset
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

ASSETS = Path(__file__).parents[1] / "newton_assets"
LEGS = ("rear_right", "front_left", "front_right", "rear_left")
LEG_WEIGHT = 0.2 * 9.81
MIDDLE = torch.tensor([False, True, False])
SIDEWAYS = (0.0, 0.0, math.sin(math.pi / 4), math.cos(math.pi / 4))
"""Sensor turned by 90 degrees to the left."""


def make(sensors: dict[str, SensorCfg], device: torch.device, **physics) -> NewtonBackend:
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=200.0, damping=4.0, effort_limit=100.0)
    init = InitialStateCfg(pos=(0.0, 0.0, 0.5))
    entity = ArticulationCfg(asset=str(ASSETS / "walker.xml"), init_state=init, actuators={"legs": legs})
    settings = {"dt": 0.005, "solver": MuJoCoSolverCfg(njmax=100, nconmax=24)} | physics
    scene = SceneCfg(entities={"robot": entity}, sensors=sensors)
    return NewtonBackend(NewtonCfg(**settings), scene, 3, device)


def all_sensors() -> dict[str, SensorCfg]:
    return {
        "legs": JointWrenchCfg(body_names=LEGS),
        "contacts": ContactSensorCfg(),
        "imu": ImuCfg(body_name="base"),
        "mounted": ImuCfg(body_name="base", pos=(0.1, 0.05, 0.02), quat=SIDEWAYS),
        "frames": FrameTransformCfg(source_body="base", target_bodies=LEGS),
    }


@pytest.fixture(scope="module")
def shared(device: torch.device) -> tuple[NewtonBackend, dict]:
    backend = make(all_sensors(), device)
    return backend, backend.state_dict()


@pytest.fixture
def dropped(shared: tuple[NewtonBackend, dict]) -> NewtonBackend:
    """Three walkers in the air."""
    backend, fresh = shared
    backend.load_state_dict(fresh)
    return backend


def run(backend: NewtonBackend, substeps: int) -> None:
    """One by one, so that one capture serves all tests."""
    for _ in range(substeps):
        backend.step(1)


def settle(backend: NewtonBackend) -> None:
    run(backend, 400)


def throw(backend: NewtonBackend, spin: tuple[float, float, float] = (1.0, -2.0, 3.0)) -> None:
    """High up, turning, each world in another pose."""
    robot = backend.entities["robot"]
    draw = torch.Generator().manual_seed(3)
    robot.root_link_pose_w[:, 2] = 3.0
    rotation = torch.nn.functional.normalize(torch.randn(3, 4, generator=draw), dim=-1)
    robot.root_link_pose_w[:, 3:].copy_(rotation)
    robot.root_com_vel_w[:, 3:] = torch.tensor(spin)
    backend.written.fill_(True)
    backend.forward()


def test_a_leg_at_rest_is_held_by_its_joint_and_the_ground(dropped):
    """F_joint + F_contact + m g = 0, in the leg's frame."""
    settle(dropped)
    robot, contacts = dropped.entities["robot"], dropped.sensors["contacts"]
    ids = [robot.body_names.index(leg) for leg in LEGS]
    rotation = robot.body_link_pose_w[:, ids, 3:]
    force = quat_apply(rotation, dropped.sensors["legs"].wrench_b[..., :3])
    total = force + contacts.net_forces_w[:, contacts.find_bodies(LEGS, preserve_order=True)]
    expected = torch.tensor([0.0, 0.0, LEG_WEIGHT]).expand(3, 4, 3)
    torch.testing.assert_close(total.cpu(), expected, rtol=0.0, atol=0.05)
    assert (force[..., 2] < -5.0).all(), "the legs carry the trunk"


def test_a_joint_at_rest_passes_on_the_actuators_effort(dropped):
    """The torque about the hinge, moved from the centre of mass to the joint, is the effort."""
    robot = dropped.entities["robot"]
    robot.joint_pos_target.copy_(torch.tensor([0.2, 0.2, -0.2, -0.2]))  # legs that spread against the friction
    settle(dropped)
    wrench = dropped.sensors["legs"].wrench_b
    lever = -robot.body_com_pos_b[:, [robot.body_names.index(leg) for leg in LEGS]]
    about_joint = wrench[..., 3:] - torch.linalg.cross(lever, wrench[..., :3])
    effort = robot.applied_effort[:, [robot.joint_names.index(hip) for hip in ("hip_rr", "hip_fl", "hip_fr", "hip_rl")]]
    torch.testing.assert_close(about_joint[..., 1], effort, rtol=0.02, atol=0.02)
    assert effort.abs().min() > 0.2, "nothing to pass on"


def test_nothing_pushes_through_the_joints_in_free_fall(dropped):
    dropped.step(4)
    assert dropped.sensors["legs"].wrench_b.abs().max() < 0.02


def test_the_wrench_is_that_of_the_last_substep_only(dropped, assert_same):
    run(dropped, 50)
    start = dropped.state_dict()
    dropped.step(7)
    once = dropped.state_dict()
    dropped.load_state_dict(start)
    run(dropped, 7)
    several = dropped.state_dict()
    name = "sensors.legs.wrench_b"
    assert_same({name: several[name]}, {name: once[name]})
    assert once[name].any()


def test_an_imu_at_rest_feels_one_g_upwards(dropped):
    settle(dropped)
    up = torch.tensor([0.0, 0.0, 9.81], device=dropped.device)
    robot = dropped.entities["robot"]
    expected = quat_apply_inverse(robot.root_link_pose_w[:, 3:], up.expand(3, 3))
    torch.testing.assert_close(dropped.sensors["imu"].lin_acc_b, expected, rtol=0.0, atol=0.05)
    assert dropped.sensors["imu"].ang_vel_b.abs().max() < 0.01


def test_an_imu_in_free_fall_feels_nothing(dropped):
    dropped.step(4)
    assert dropped.sensors["imu"].lin_acc_b.norm(dim=-1).max() < 0.05


def test_a_turning_imu_feels_the_centripetal_force_of_its_place(dropped, device):
    """In free fall the specific force is alpha x r + w x (w x r); differences between two places show it."""
    throw(dropped)
    robot = dropped.entities["robot"]
    before = robot.root_com_vel_w[:, 3:].clone()
    rotation = robot.root_link_pose_w[:, 3:].clone()
    dropped.step(1)
    ang_acc = (robot.root_com_vel_w[:, 3:] - before) / dropped.dt
    lever = quat_apply(rotation, torch.tensor([0.1, 0.05, 0.02], device=device).expand(3, 3))
    expected_w = torch.linalg.cross(ang_acc, lever) + torch.linalg.cross(before, torch.linalg.cross(before, lever))
    expected = quat_apply_inverse(rotation, expected_w)
    mounted = dropped.sensors["mounted"].lin_acc_b
    in_base = quat_apply(torch.tensor(SIDEWAYS, device=device).expand(3, 4), mounted)
    torch.testing.assert_close(in_base - dropped.sensors["imu"].lin_acc_b, expected, rtol=0.02, atol=0.05)
    assert expected.norm(dim=-1).min() > 0.3


def test_a_gyroscope_gives_the_angular_velocity_in_its_frame(dropped, device):
    throw(dropped)
    robot = dropped.entities["robot"]
    for advance in (lambda: None, lambda: dropped.step(7)):
        advance()
        torch.testing.assert_close(dropped.sensors["imu"].ang_vel_b, robot.root_ang_vel_b, rtol=1e-5, atol=1e-5)
        turned = quat_apply_inverse(torch.tensor(SIDEWAYS, device=device).expand(3, 4), robot.root_ang_vel_b)
        torch.testing.assert_close(dropped.sensors["mounted"].ang_vel_b, turned, rtol=1e-5, atol=1e-5)


def test_transforms_are_those_between_the_bodies(dropped, device):
    throw(dropped)
    robot = dropped.entities["robot"]
    ids = [robot.body_names.index(leg) for leg in LEGS]
    for advance in (lambda: None, lambda: dropped.step(7)):
        advance()
        source = robot.body_link_pose_w[:, [robot.body_names.index("base")]].expand(3, 4, 7)
        target = robot.body_link_pose_w[:, ids]
        pose = dropped.sensors["frames"].target_pose_source
        position = quat_apply_inverse(source[..., 3:], target[..., :3] - source[..., :3])
        torch.testing.assert_close(pose[..., :3], position, rtol=1e-5, atol=1e-5)
        axis = torch.tensor([0.3, -0.4, 0.8], device=device).expand(3, 4, 3)
        direction = quat_apply(source[..., 3:], quat_apply(pose[..., 3:], axis))
        torch.testing.assert_close(direction, quat_apply(target[..., 3:], axis), rtol=1e-4, atol=1e-4)
    assert dropped.sensors["frames"].target_names == LEGS


def test_written_state_shows_in_its_worlds_only(dropped):
    run(dropped, 40)
    before = dropped.state_dict()
    robot = dropped.entities["robot"]
    robot.joint_pos[1] = 0.5
    robot.root_com_vel_w[1, 3:] = 2.0
    dropped.mark_written(MIDDLE.to(dropped.device))
    dropped.forward()
    after = dropped.state_dict()
    for name in ("sensors.frames.target_pose_source", "sensors.imu.ang_vel_b"):
        assert torch.equal(after[name][[0, 2]], before[name][[0, 2]]), name
        assert not torch.equal(after[name][1], before[name][1]), name
    assert torch.equal(after["sensors.imu.lin_acc_b"], before["sensors.imu.lin_acc_b"])


@pytest.mark.parametrize("collisions", ["mujoco", "newton"])
def test_state_that_is_written_before_a_step_acts_as_after_a_forward(collisions, device, assert_same):
    """Contacts are those of the new poses, and sensors see the bodies there, also in a step of one solver step."""
    backend = make(all_sensors(), device, solver=MuJoCoSolverCfg(njmax=100, nconmax=24, collisions=collisions))
    settle(backend)
    assert backend.sensors["contacts"].net_forces_w.any()
    robot, on_the_ground = backend.entities["robot"], backend.state_dict()
    turned = torch.nn.functional.normalize(torch.tensor([0.3, -0.2, 0.5, 0.8], device=device), dim=0)
    for substeps in (1, 3):
        results = []
        for forward in (True, False):
            backend.load_state_dict(on_the_ground)
            robot.root_link_pose_w[1, 2] = 3.0
            robot.root_link_pose_w[1, 3:] = turned
            robot.root_com_vel_w[1, 3:] = torch.tensor([1.0, -2.0, 3.0], device=device)
            backend.mark_written(MIDDLE.to(device))
            if forward:
                backend.forward()
            backend.step(substeps)
            results.append(backend.state_dict())
        assert_same(*results)
        assert not backend.sensors["contacts"].net_forces_w[1].any()


def test_after_a_reset_sensors_equal_those_of_a_new_world(dropped, shared):
    fresh = shared[1]
    run(dropped, 80)
    robot = dropped.entities["robot"]
    before = dropped.state_dict()
    for name in ("joint_pos", "joint_vel", "root_link_pose_w", "root_com_vel_w"):
        getattr(robot, name)[1] = fresh[f"entities.robot.{name}"][1].to(dropped.device)
    dropped.mark_written(MIDDLE.to(dropped.device))
    dropped.reset(MIDDLE.to(dropped.device))
    dropped.forward()
    after = dropped.state_dict()
    for name in (name for name in after if name.startswith("sensors.")):
        assert torch.equal(after[name][1], fresh[name][1]), name
        assert torch.equal(after[name][[0, 2]], before[name][[0, 2]]), name


def test_the_reset_harness_finds_what_must_be_cleared(dropped):
    changed = check_masked_reset(dropped, dropped.reset, dropped.num_envs)
    assert {"sensors.legs.wrench_b", "sensors.imu.lin_acc_b", "sensors.mounted.ang_vel_b"} <= changed
    assert "sensors.frames.target_pose_source" not in changed, "it follows from the state, which a reset leaves alone"


def test_a_world_that_goes_non_finite_shows_its_default_state(dropped, shared):
    run(dropped, 80)
    dropped.entities["robot"].joint_pos_target[1, 0] = math.nan
    dropped.step(4)
    assert dropped.non_finite.tolist() == [False, True, False]
    state = dropped.state_dict()
    for name in (name for name in state if name.startswith("sensors.")):
        torch.testing.assert_close(state[name][1], shared[1][name][1], rtol=0.0, atol=1e-6)
        assert state[name].isfinite().all(), name


def test_eager_equals_captured_and_a_saved_state_continues(dropped, device, assert_same, monkeypatch):
    monkeypatch.setenv("LAB_CAPTURE", "0")
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")  # eager steps raise where the host would wait for the device
    eager = make(all_sensors(), device)
    run(dropped, 30)
    eager.load_state_dict(dropped.state_dict())
    for backend in (dropped, eager):
        run(backend, 20)
        backend.reset(MIDDLE.to(device))
        backend.step(4)
    expected = eager.state_dict()
    assert_same(dropped.state_dict(), expected)
    assert expected["sensors.legs.wrench_b"].any() and expected["sensors.imu.lin_acc_b"].any()
    address = eager.sensors["legs"].wrench_b.data_ptr()
    eager.rebuild()
    assert eager.sensors["legs"].wrench_b.data_ptr() == address and not eager.sensors["legs"].wrench_b.any()
    eager.step(1)


def test_forces_are_computed_in_the_last_substep_only(dropped):
    """Nothing is computed that nobody reads."""
    engine = dropped.solver.inner
    seen: list[bool] = []
    original = dropped.solver.inner.step

    def spy(*args, **kwargs):
        seen.append(kwargs["observables"] is not None and engine.mjw_model.opt.run_rne_postconstraint)
        return original(*args, **kwargs)

    engine.step = spy
    try:
        dropped._advance(3)
    finally:
        del engine.step
    assert seen == [False, False, True]


def test_a_sensor_sits_on_one_body():
    cfg = {"imu": ImuCfg(body_name="rear_.*")}
    with pytest.raises(ConfigError, match=r"'imu'.*'rear_\.\*' must name one body, it matches rear_left, rear_right"):
        make(cfg, torch.device("cpu"))
