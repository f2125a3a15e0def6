"""The Newton backend against the rules of its interface."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from lab_core.math import quat_apply, quat_apply_inverse
from lab_core.scene import ArticulationData, SceneCfg
from lab_core.state import StateError
from lab_core.testing import check_masked_reset
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

MIDDLE = torch.tensor([False, True, False])


def robot(backend: NewtonBackend):
    return backend.entities["robot"]


def snapshot(backend: NewtonBackend) -> dict[str, torch.Tensor]:
    """Everything that the backend holds for the future, and every buffer."""
    return backend.state_dict()


def assert_equal_rows(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], rows: list[int]) -> None:
    """Bit for bit on every device: for what is not stepped."""
    for name in first.keys() - {"non_finite_count"}:
        assert torch.equal(first[name].reshape(3, -1)[rows], second[name].reshape(3, -1)[rows]), name


def push(backend: NewtonBackend, seed: int = 0) -> None:
    """Authors a random state with the base well above the ground."""
    data, draw = robot(backend), torch.Generator().manual_seed(seed)
    for buffer, low, high in (
        (data.joint_pos, -0.8, 0.8),
        (data.joint_vel, -2.0, 2.0),
        (data.root_link_pose_w[:, :3], 1.0, 2.0),
        (data.root_com_vel_w, -1.0, 1.0),
    ):
        buffer.copy_(torch.empty(buffer.shape).uniform_(low, high, generator=draw))
    rotation = torch.nn.functional.normalize(torch.randn(backend.num_envs, 4, generator=draw), dim=-1)
    data.root_link_pose_w[:, 3:].copy_(rotation)
    backend.written.fill_(True)


def test_joints_and_bodies_have_the_order_of_the_file(rover, cart_pole):
    assert robot(rover).joint_names == ("shoulder", "wrist", "tail")
    assert robot(rover).body_names == ("base", "arm", "hand", "tail")
    assert robot(cart_pole).joint_names == ("slider_to_cart", "cart_to_pole")
    assert robot(cart_pole).body_names == ("slider", "cart", "pole")


def test_properties_come_from_the_file(rover, cart_pole):
    data = robot(rover)
    inertia = torch.diagonal(data.body_inertia_b[:, 0], dim1=-2, dim2=-1)
    assert torch.allclose(data.body_mass.cpu(), torch.tensor([3.0, 0.5, 0.2, 0.2]))
    assert torch.allclose(data.body_com_pos_b[:, 0].cpu(), torch.tensor([0.05, 0.02, -0.03]))
    assert torch.allclose(inertia.cpu(), torch.tensor([0.04, 0.05, 0.06]))
    assert torch.allclose(data.joint_pos_limits[:, 0].cpu(), torch.tensor([-2.0, 2.0]))
    assert torch.allclose(data.joint_armature.cpu(), torch.tensor(0.01))
    assert robot(cart_pole).joint_pos_limits[:, 1].tolist() == [[-math.inf, math.inf]] * 3


def test_a_new_world_is_at_its_default(rover, cart_pole):
    assert torch.allclose(robot(rover).joint_pos.cpu(), torch.tensor([0.3, -0.2, 0.1]))
    assert torch.equal(robot(rover).root_link_pose_w, robot(rover).default_root_pose)
    assert torch.equal(robot(rover).body_link_pose_w[:, 0], robot(rover).default_root_pose)
    assert torch.allclose(robot(cart_pole).root_link_pose_w.cpu(), torch.tensor([0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0]))
    assert not robot(cart_pole).root_com_vel_w.any()


def test_warp_views_share_the_memory_of_the_tensors(rover):
    data = robot(rover)
    for name in ArticulationData.buffers():
        assert getattr(data.warp, name).ptr == getattr(data, name).data_ptr(), name


def test_derived_state_follows_from_the_authored_state(rover, device):
    push(rover)
    rover.forward()
    data = robot(rover)
    rotation, velocity = data.root_link_pose_w[:, 3:], data.root_com_vel_w
    arm = torch.linalg.cross(velocity[:, 3:], quat_apply(rotation, data.body_com_pos_b[:, 0]))
    link = velocity[:, :3] - arm
    x_axis = quat_apply(rotation, torch.tensor([1.0, 0.0, 0.0], device=device).expand(3, 3))
    down = torch.tensor([0.0, 0.0, -1.0], device=device).expand(3, 3)

    def close(actual, expected):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)

    close(data.root_link_vel_w, torch.cat([link, velocity[:, 3:]], dim=-1))
    close(data.root_com_lin_vel_b, quat_apply_inverse(rotation, velocity[:, :3]))
    close(data.root_link_lin_vel_b, quat_apply_inverse(rotation, link))
    close(data.root_ang_vel_b, quat_apply_inverse(rotation, velocity[:, 3:]))
    close(data.projected_gravity_b, quat_apply_inverse(rotation, down))
    close(data.heading_w, torch.atan2(x_axis[:, 1], x_axis[:, 0]))
    close(data.body_com_vel_w[:, 0], velocity)


def test_velocities_are_those_of_the_points_that_they_name(rover):
    """Over a short time the frame origin moves by the link velocity, the centre of mass by the com velocity."""
    push(rover)
    rover.forward()
    data = robot(rover)

    def com() -> torch.Tensor:
        pose = data.body_link_pose_w
        return pose[..., :3] + quat_apply(pose[..., 3:], data.body_com_pos_b)

    def advance():
        before = data.root_link_pose_w[:, :3].clone(), com()
        velocity = data.root_link_vel_w[:, :3].clone(), data.body_com_vel_w[..., :3].clone()
        rover.step(1)
        after = data.root_link_pose_w[:, :3], com()
        mean = (velocity[0] + data.root_link_vel_w[:, :3]) / 2, (velocity[1] + data.body_com_vel_w[..., :3]) / 2
        return [((a - b) / rover.dt, m) for a, b, m in zip(after, before, mean, strict=True)]

    for moved, velocity in advance():
        assert (moved - velocity).abs().max() < 0.15
    # Exchanging the two points would be wrong by |w x R c|, far above that.
    assert (data.root_link_vel_w - data.root_com_vel_w)[:, :3].norm(dim=-1).min() > 1e-3


def test_forward_takes_over_the_written_worlds_only(rover):
    rover.step(3)
    before = snapshot(rover)
    data = robot(rover)
    data.joint_pos[1] = torch.tensor([0.5, 0.4, -0.3])
    data.root_link_pose_w[1, :3] = torch.tensor([0.1, 0.2, 0.9])
    rover.mark_written(MIDDLE.to(rover.device))
    rover.forward()
    assert_equal_rows(before, snapshot(rover), rows=[0, 2])
    assert torch.equal(data.joint_pos[1].cpu(), torch.tensor([0.5, 0.4, -0.3]))
    assert torch.equal(data.body_link_pose_w[1, 0, :3].cpu(), torch.tensor([0.1, 0.2, 0.9]))
    assert not rover.written.any()


def test_state_written_without_forward_is_not_lost(rover, shared_rover, assert_same):
    push(rover)
    rover.forward()
    rover.step(2)
    expected = snapshot(rover)
    rover.load_state_dict(shared_rover[1])
    push(rover)
    rover.step(2)
    assert_same(snapshot(rover), expected)


def test_joint_acceleration_spans_the_call_and_a_reset_gives_no_spike(rover):
    data = robot(rover)
    before = data.joint_vel.clone()
    rover.step(4)
    torch.testing.assert_close(data.joint_acc, (data.joint_vel - before) / (4 * rover.dt))
    data.joint_vel[1] = 3.0
    rover.mark_written(MIDDLE.to(rover.device))
    acceleration = data.joint_acc.clone()
    rover.forward()
    assert torch.equal(data.joint_acc, acceleration)
    before = data.joint_vel.clone()
    rover.step(1)
    torch.testing.assert_close(data.joint_acc, (data.joint_vel - before) / rover.dt)


@pytest.mark.parametrize("substeps", [3, 4])
def test_one_call_of_n_substeps_equals_n_calls_of_one(rover, shared_rover, assert_same, substeps):
    data = robot(rover)
    data.joint_pos_target.copy_(torch.tensor([0.8, -0.5, 0.0]))
    rover.step(substeps)
    once = snapshot(rover)
    rover.load_state_dict(shared_rover[1])
    data.joint_pos_target.copy_(torch.tensor([0.8, -0.5, 0.0]))
    for _ in range(substeps):
        rover.step(1)
    several = snapshot(rover)
    del once["entities.robot.joint_acc"], several["entities.robot.joint_acc"]  # over the call, by definition
    assert_same(once, several)


def test_effort_is_the_clipped_law_on_the_state_before_the_step(rover):
    data = robot(rover)
    data.joint_pos_target.copy_(torch.tensor([[0.35, 0.5, 0.0], [0.3, -0.21, 0.0], [-2.0, -0.2, 9.0]]))
    data.joint_vel_target[:, :2] = 0.1
    data.joint_effort_target[:, 0] = 0.5
    law = (
        data.joint_stiffness * (data.joint_pos_target - data.joint_pos)
        + data.joint_damping * (data.joint_vel_target - data.joint_vel)
        + data.joint_effort_target
    )
    expected = law.clamp(-data.joint_effort_limits, data.joint_effort_limits)
    rover.step(1)
    torch.testing.assert_close(data.applied_effort, expected)
    assert (data.applied_effort[:, :2].abs() == data.joint_effort_limits[:, :2]).any(), "nothing was clipped"
    assert (data.applied_effort[:, 2] == 0).all(), "a joint without an actuator has no effort"


def test_gains_and_limits_act_when_they_are_edited_between_replays(rover):
    data = robot(rover)
    rover.step(1)
    data.joint_pos_target[:, 0] = 10.0
    data.joint_effort_limits[1, 0] = 1.5
    data.joint_stiffness[2, 0] = 0.0
    data.joint_damping[2, 0] = 0.0
    rover.step(1)
    assert data.applied_effort[:, 0].tolist() == [5.0, 1.5, 0.0]


def test_the_actuators_effort_is_what_moves_the_joint(cart_pole):
    """m a = F for the cart, with the pole hanging at rest: M [x''; th''] = [F; 0]."""
    data = robot(cart_pole)
    data.joint_effort_target[:, 0] = torch.tensor([0.0, 10.0, -20.0])
    data.joint_pos[:, 1] = math.pi
    cart_pole.written.fill_(True)
    cart_pole.forward()
    cart_pole.step(1)
    lever, inertia = 0.47, 0.08363333 + 0.47**2
    mass = torch.tensor([[2.0, lever], [lever, inertia]])
    force = torch.tensor([[0.0, 10.0, -20.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(data.joint_acc.T.cpu(), torch.linalg.solve(mass, force), atol=1e-2, rtol=1e-3)


def test_the_free_pole_falls_by_its_equation_of_motion(cart_pole):
    """M(q) q'' + bias = 0 at q = (0.5, 0.3), from rest, with the masses of the file."""
    data = robot(cart_pole)
    data.joint_pos.copy_(torch.tensor([0.5, 0.3]))
    cart_pole.written.fill_(True)
    cart_pole.forward()
    cart_pole.step(1)
    lever, inertia = 0.47, 0.08363333 + 0.47**2
    coupling = -lever * math.cos(0.3)
    mass = torch.tensor([[2.0, coupling], [coupling, inertia]])
    expected = torch.linalg.solve(mass, torch.tensor([0.0, lever * 9.81 * math.sin(0.3)]))
    torch.testing.assert_close(data.joint_acc.cpu(), expected.expand(3, 2), atol=1e-2, rtol=1e-3)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_gravity_of_the_configuration_acts(make_cart_pole):
    backend = make_cart_pole(gravity=(0.0, 0.0, 0.0))
    robot(backend).joint_pos[:, 1] = 0.3
    backend.written.fill_(True)
    backend.forward()
    backend.step(10)
    assert robot(backend).joint_pos[:, 1].tolist() == pytest.approx([0.3] * 3)
    assert not robot(backend).projected_gravity_b.any()


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_solver_substeps_divide_the_step(make_cart_pole):
    """With no effort to hold, two solver steps in one physics step are two physics steps of half the length."""
    coarse, fine = make_cart_pole(dt=1 / 60, substeps=2), make_cart_pole(dt=1 / 120)
    for backend in (coarse, fine):
        robot(backend).joint_damping.zero_()
        robot(backend).joint_pos[:, 1] = 1.0
        backend.written.fill_(True)
        backend.forward()
    coarse.step(1)
    fine.step(2)
    assert torch.equal(robot(coarse).joint_pos, robot(fine).joint_pos)


def test_reset_leaves_the_state_and_other_worlds_alone(rover):
    rover.step(5)
    before = snapshot(rover)
    rover.reset(torch.zeros_like(rover.written))
    assert_equal_rows(before, snapshot(rover), rows=[0, 1, 2])
    rover.reset(MIDDLE.to(rover.device))
    after = snapshot(rover)
    assert_equal_rows(before, after, rows=[0, 2])
    assert before["engine.qacc_warmstart"][1].any() and not after["engine.qacc_warmstart"][1].any()
    assert torch.equal(before["entities.robot.joint_pos"], after["entities.robot.joint_pos"])


def test_a_mask_of_the_wrong_length_is_refused(rover):
    with pytest.raises(ValueError, match=r"\(3,\).*\(4,\)"):
        rover.reset(torch.ones(4, dtype=torch.bool, device=rover.device))


def test_rebuild_equals_a_new_backend_and_keeps_the_buffers(rover, shared_rover, make_rover, assert_same):
    backend = make_rover()
    addresses = {name: getattr(robot(backend), name).data_ptr() for name in ArticulationData.buffers()}
    called = []
    backend.rebuild_callbacks.append(lambda: called.append(True))
    robot(backend).joint_pos_target.fill_(0.4)
    robot(backend).joint_stiffness.fill_(1.0)
    robot(backend).body_wrench_w.fill_(0.5)
    backend.step(4)
    backend.rebuild()
    assert called == [True]
    assert addresses == {name: getattr(robot(backend), name).data_ptr() for name in ArticulationData.buffers()}
    assert_equal_rows(snapshot(backend), shared_rover[1], rows=[0, 1, 2])
    backend.step(4)
    rover.step(4)
    assert_same(snapshot(backend), snapshot(rover))


def test_a_saved_state_continues_in_a_new_backend(rover, make_rover, assert_same):
    first, second = rover, make_rover()
    for backend in (first, second):
        robot(backend).joint_pos_target.copy_(torch.tensor([1.0, 0.3, 0.0]))
    for _ in range(50):
        first.step(2)
    second.load_state_dict(first.state_dict())
    for _ in range(50):
        first.step(2)
        second.step(2)
    assert_same(snapshot(first), snapshot(second))
    assert robot(first).root_link_pose_w[0, 2] < 0.2, "the rover has not reached the ground: contacts were not tested"


def test_a_state_of_another_scene_is_refused(rover):
    state = rover.state_dict()
    del state["engine.qacc_warmstart"]
    with pytest.raises(StateError, match="engine.qacc_warmstart: missing"):
        rover.load_state_dict(state)
    with pytest.raises(StateError, match="entities.robot.joint_pos: expected"):
        rover.load_state_dict(rover.state_dict() | {"entities.robot.joint_pos": torch.zeros(5, 3)})


def test_a_masked_reset_touches_its_worlds_and_what_outlives_their_state_only(rover):
    cleared = check_masked_reset(rover, rover.reset, rover.num_envs)
    assert cleared == {"engine.qacc_warmstart", "entities.robot.body_wrench_w"}


def test_eager_and_captured_runs_agree(rover, make_rover, assert_same, monkeypatch):
    captured = rover
    monkeypatch.setenv("LAB_CAPTURE", "0")
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")  # eager steps raise where the host would wait for the device
    eager = make_rover()
    for backend in (captured, eager):
        push(backend)
        backend.forward()
        backend.step(3)
        backend.reset(MIDDLE.to(backend.device))
        backend.step(2)
    assert_same(snapshot(captured), snapshot(eager))
    assert all(stage.captured for stage in captured.capture_context.report())
    assert not any(stage.captured for stage in eager.capture_context.report())
    solver = "MuJoCo Warp, constraints in one kernel" if captured.device.type == "cpu" else "MuJoCo Warp"
    assert captured.description == f"newton ({solver}), captured"
    assert eager.description == f"newton ({solver}), eager: LAB_CAPTURE=0"


def test_a_world_does_not_depend_on_how_many_there_are(rover, make_rover, assert_same):
    alone = make_rover(num_envs=1)
    rover.step(10)
    alone.step(10)
    state = snapshot(rover)
    first = {name: value.reshape(3, -1)[:1] for name, value in state.items() if name.startswith("entities.")}
    assert "entities.robot.joint_pos" in first
    assert_same(first, {name: snapshot(alone)[name].reshape(1, -1) for name in first}, num_envs=1)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_two_entities_share_a_world(rover_cfg, device):
    high = replace(rover_cfg, init_state=replace(rover_cfg.init_state, pos=(3.0, 0.0, 2.0)))
    scene = SceneCfg(entities={"low": rover_cfg, "high": high})
    backend = NewtonBackend(NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=192, nconmax=64)), scene, 2, device)
    backend.entities["high"].joint_pos_target[:, 0] = -0.4
    backend.step(10)
    low, high_data = backend.entities["low"], backend.entities["high"]
    assert torch.allclose(high_data.root_link_pose_w[:, 0], torch.tensor(3.0), atol=0.05)
    assert (high_data.joint_pos[:, 0] < low.joint_pos[:, 0]).all()
    assert (low.applied_effort[:, 0] != high_data.applied_effort[:, 0]).all()
