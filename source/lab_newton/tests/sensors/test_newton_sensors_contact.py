"""The contact sensor against mechanics: falls, weights, impacts, and who pushes whom."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.names import UnknownNameError
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSensorCfg, SensorCfg
from lab_core.testing import check_masked_reset
from lab_newton import MuJoCoSolverCfg, NewtonCfg, NewtonSolverCfg
from lab_newton.backend import NewtonBackend

CPU = torch.device("cpu")
ASSETS = Path(__file__).parents[1] / "newton_assets"
WEIGHT = 5.8 * 9.81
FOOT_HEIGHT = 0.23
"""Of the root, when the feet touch the ground with straight legs."""
MIDDLE = torch.tensor([False, True, False])
FEET = ("front_left", "front_right", "rear_left", "rear_right")
SENSORS: dict[str, SensorCfg] = {
    "feet": ContactSensorCfg(body_names=("rear_.*", "front_.*"), filter_entities=("terrain", "robot")),
    "all": ContactSensorCfg(history_length=6),
}


def walker(height: float, x: float = 0.0) -> ArticulationCfg:
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=200.0, damping=4.0, effort_limit=100.0)
    return ArticulationCfg(
        asset=str(ASSETS / "walker.xml"), init_state=InitialStateCfg(pos=(x, 0.0, height)), actuators={"legs": legs}
    )


def make(
    sensors: dict[str, SensorCfg], device: torch.device, num_envs: int = 3, height: float = 0.5, **physics
) -> NewtonBackend:
    settings = {"dt": 0.005, "solver": MuJoCoSolverCfg(njmax=100, nconmax=24)} | physics
    scene = SceneCfg(entities={"robot": walker(height)}, sensors=sensors)
    return NewtonBackend(NewtonCfg(**settings), scene, num_envs, device)


@pytest.fixture(scope="module")
def shared(device: torch.device) -> tuple[NewtonBackend, dict]:
    backend = make(SENSORS, device)
    return backend, backend.state_dict()


@pytest.fixture
def dropped(shared: tuple[NewtonBackend, dict]) -> NewtonBackend:
    """Three walkers 0.27 m above the ground."""
    backend, fresh = shared
    backend.load_state_dict(fresh)
    return backend


def run(backend: NewtonBackend, substeps: int) -> None:
    """Four by four, so that one capture serves all tests."""
    for _ in range(substeps // 4):
        backend.step(4)


def settle(backend: NewtonBackend) -> None:
    run(backend, 400)


def test_bodies_are_in_the_order_of_the_entity(dropped):
    assert dropped.sensors["feet"].body_names == FEET
    assert dropped.sensors["all"].body_names == ("base", *FEET)


def test_buffers_are_shared_with_warp(dropped):
    data = dropped.sensors["feet"]
    for name, view in vars(data.warp).items():
        assert view.ptr == getattr(data, name).data_ptr(), name
    assert data.warp.net_forces_w_history.shape == (3, 4, 4)


def test_air_time_is_the_time_of_the_fall(dropped):
    data, dt = dropped.sensors["feet"], dropped.dt
    fall = math.sqrt(2 * (0.5 - FOOT_HEIGHT) / 9.81)
    while not data.contact_steps.any():
        assert not data.current_contact_time.any()
        dropped.step(1)
    assert (data.contact_steps == 1).all() and (data.air_steps == 0).all()
    assert (data.last_air_time - fall).abs().max() <= dt
    assert torch.equal(data.current_contact_time, torch.full_like(data.current_contact_time, dt))


def test_first_contact_is_true_for_one_control_step(dropped):
    data, step_dt = dropped.sensors["feet"], 4 * dropped.dt
    firsts = torch.zeros(3, 4, dtype=torch.int64, device=dropped.device)
    for _ in range(12):  # the fall ends in the last one
        dropped.step(4)
        first = data.compute_first_contact(step_dt)
        assert torch.equal(first, data.contact_steps > 0)
        firsts += first
    for _ in range(5):
        dropped.step(4)
        assert (data.contact_steps > 0).all(), "the feet bounced"
        firsts += data.compute_first_contact(step_dt)
    assert (firsts == 1).all()


def test_what_is_close_but_does_not_touch_takes_no_contact_slot(dropped):
    while dropped.entities["robot"].root_link_pose_w[0, 2] > FOOT_HEIGHT + 0.02:
        dropped.step(1)
    assert int(dropped.solver.measure_contacts().count.numpy()[0]) == 0
    dropped.step(4)
    assert int(dropped.solver.measure_contacts().count.numpy()[0]) == 3 * 4


def test_feet_carry_the_weight(dropped):
    settle(dropped)
    feet, everything = dropped.sensors["feet"], dropped.sensors["all"]
    total = feet.net_forces_w.sum(dim=1)
    assert total[:, 2].tolist() == pytest.approx([WEIGHT] * 3, rel=0.02)
    assert total[:, :2].abs().max() < 0.02 * WEIGHT
    assert (feet.net_forces_w[..., 2] > 0.1 * WEIGHT).all()
    assert torch.equal(everything.net_forces_w[:, 1:], feet.net_forces_w)
    assert not everything.net_forces_w[:, 0].any()
    # The centre of mass is in front of the middle.
    assert (feet.net_forces_w[:, :2, 2] > feet.net_forces_w[:, 2:, 2]).all()


def test_the_ground_is_the_only_party_that_pushes_standing_feet(dropped):
    settle(dropped)
    data = dropped.sensors["feet"]
    assert torch.equal(data.force_matrix_w[:, :, 0], data.net_forces_w)
    assert not data.force_matrix_w[:, :, 1].any()


def test_history_has_the_newest_substep_first(dropped):
    data, feet = dropped.sensors["all"], dropped.sensors["feet"]
    expected: list[torch.Tensor] = []
    by_party: list[torch.Tensor] = []
    for _ in range(60):
        dropped.step(1)
        expected.insert(0, data.net_forces_w.clone())
        by_party.insert(0, feet.force_matrix_w.clone())
        recent = torch.stack(expected[:6], dim=1)
        assert torch.equal(data.net_forces_w_history[:, : recent.shape[1]], recent)
        recent = torch.stack(by_party[: feet.force_matrix_w_history.shape[1]], dim=1)
        assert torch.equal(feet.force_matrix_w_history[:, : recent.shape[1]], recent)
    assert len({float(force[0, 1, 0, 2]) for force in by_party[:4]}) == 4, "the forces did not change"
    assert len({float(force[0, 1, 2]) for force in expected[:6]}) == 6, "the forces did not change"


def test_an_impact_of_one_substep_stays_in_the_history_of_a_control_step(dropped):
    """Whichever substep of a step first touches the ground, the history of that step shows it."""
    data = dropped.sensors["feet"]
    for delay in range(4):
        dropped.load_state_dict(dropped.state_dict())
        dropped.entities["robot"].root_link_pose_w[:, 2] = FOOT_HEIGHT + 0.001 + 2.0 * 0.005 * delay
        dropped.entities["robot"].root_com_vel_w[:, 2] = -2.0
        dropped.written.fill_(True)
        dropped.reset(torch.ones_like(dropped.written))
        dropped.forward()
        dropped.step(4)
        assert (data.net_forces_w_history.norm(dim=-1).amax(dim=1) > 100.0).all(), delay


def test_one_call_of_n_substeps_equals_n_calls(dropped, shared, assert_same):
    def sensors() -> dict[str, torch.Tensor]:
        return {name: value for name, value in dropped.state_dict().items() if name.startswith("sensors.")}

    dropped.step(60)
    once = sensors()
    assert once["sensors.feet.contact_steps"].any()
    dropped.load_state_dict(shared[1])
    for _ in range(60):
        dropped.step(1)
    assert_same(sensors(), once)


def test_a_reset_empties_its_rows_only(dropped):
    settle(dropped)
    before = {name: data.state_dict() for name, data in dropped.sensors.items()}
    dropped.reset(MIDDLE.to(dropped.device))
    for name, data in dropped.sensors.items():
        for field, value in data.state_dict().items():
            assert torch.equal(value[[0, 2]], before[name][field][[0, 2]]), (name, field)
            assert not value[1].any(), (name, field)
    dropped.mark_written(MIDDLE.to(dropped.device))
    dropped.forward()
    assert not dropped.sensors["feet"].net_forces_w[1].any(), "old forces came back before a step"
    dropped.step(1)
    assert (dropped.sensors["feet"].net_forces_w[1, :, 2] > 1.0).all()
    assert dropped.sensors["feet"].contact_steps[1].tolist() == [1] * 4
    assert (dropped.sensors["feet"].contact_steps[0] > 1).all()


def test_the_reset_harness_finds_every_buffer(dropped):
    changed = check_masked_reset(dropped, dropped.reset, dropped.num_envs)
    fields = dropped.sensors["feet"].state_dict()
    assert {f"sensors.feet.{field}" for field in fields} <= changed
    assert {"net_forces_w_history", "force_matrix_w", "force_matrix_w_history"} <= set(fields)


def test_a_world_that_goes_non_finite_shows_no_forces(dropped):
    settle(dropped)
    dropped.entities["robot"].joint_pos_target[1, 0] = math.nan
    dropped.step(4)
    assert dropped.non_finite.tolist() == [False, True, False]
    for data in dropped.sensors.values():
        for field, value in data.state_dict().items():
            assert value.isfinite().all() and not value[1].any(), field
    assert dropped.sensors["feet"].net_forces_w[0, :, 2].sum().item() == pytest.approx(WEIGHT, rel=0.02)


def test_a_saved_state_continues(dropped, assert_same):
    run(dropped, 52)
    saved = dropped.state_dict()
    dropped.step(7)
    expected = dropped.state_dict()
    dropped.load_state_dict(saved)
    dropped.step(7)
    assert_same(dropped.state_dict(), expected)
    assert expected["sensors.feet.contact_steps"].any()


def test_eager_equals_captured_and_rebuild_keeps_the_buffers(dropped, device, assert_same, monkeypatch):
    captured = dropped
    monkeypatch.setenv("LAB_CAPTURE", "0")
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")  # eager steps raise where the host would wait for the device
    eager = make(SENSORS, device)
    address = {
        name: value.data_ptr() for name, value in vars(eager.sensors["feet"]).items() if hasattr(value, "data_ptr")
    }
    run(eager, 60)
    assert eager.sensors["feet"].net_forces_w.any()
    eager.rebuild()
    assert not any(value.any() for value in eager.sensors["feet"].state_dict().values())
    for backend in (captured, eager):
        run(backend, 60)
        backend.reset(MIDDLE.to(device))
        backend.step(1)
    expected = eager.state_dict()
    assert_same(captured.state_dict(), expected)
    assert expected["sensors.feet.net_forces_w"].any()
    assert address == {
        name: value.data_ptr() for name, value in vars(eager.sensors["feet"]).items() if hasattr(value, "data_ptr")
    }


@pytest.fixture(scope="module")
def pair(device: torch.device) -> NewtonBackend:
    """A walker that stands on the trunk of another, in elliptic cones and two solver steps per substep."""
    sensors: dict[str, SensorCfg] = {
        "top": ContactSensorCfg(entity="top", filter_entities=("bottom", "bottom/base", "bottom/.*_.*", "terrain")),
        "bottom": ContactSensorCfg(entity="bottom", filter_entities=("top", "terrain")),
    }
    scene = SceneCfg(entities={"bottom": walker(0.24), "top": walker(0.52)}, sensors=sensors)
    # Both at the same place: the feet of the upper one would miss the trunk of the lower one, which is as wide.
    scene.entities["top"].init_state.quat = (0.0, 0.0, math.sin(math.pi / 4), math.cos(math.pi / 4))
    solver = MuJoCoSolverCfg(njmax=200, nconmax=64, cone="elliptic")
    return NewtonBackend(NewtonCfg(dt=0.005, substeps=2, solver=solver), scene, 2, device)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_forces_between_two_robots_are_equal_and_opposite(pair):
    reached = False
    for _ in range(60):
        pair.step(1)
        top, bottom = pair.sensors["top"], pair.sensors["bottom"]
        on_top, on_bottom = top.force_matrix_w[:, :, 0].sum(dim=1), bottom.force_matrix_w[:, :, 0].sum(dim=1)
        torch.testing.assert_close(on_top, -on_bottom, rtol=1e-4, atol=1e-3)
        by_trunk_and_legs = top.force_matrix_w[:, :, 1] + top.force_matrix_w[:, :, 2]
        torch.testing.assert_close(by_trunk_and_legs, top.force_matrix_w[:, :, 0], rtol=1e-4, atol=1e-3)
        parties = bottom.force_matrix_w.sum(dim=2)
        torch.testing.assert_close(parties, bottom.net_forces_w, rtol=1e-4, atol=1e-3)
        reached |= bool((on_top.norm(dim=-1) > 10.0).all())
    assert reached, "the robots never touched"


def test_force_is_the_momentum_that_was_given(device):
    """m v1 - m v0 = sum (F - m g) dt over an impact, with several solver steps per substep."""
    backend = make({"all": ContactSensorCfg()}, device, num_envs=1, height=0.3, substeps=2)
    data, robot = backend.sensors["all"], backend.entities["robot"]

    def momentum() -> torch.Tensor:
        return (robot.body_mass[..., None] * robot.body_com_vel_w[..., :3]).sum(dim=1)[0]

    before, impulse = momentum(), torch.zeros(3, device=device)
    weight = torch.tensor([0.0, 0.0, WEIGHT], device=device)
    for _ in range(40):
        backend.step(1)
        impulse += (data.net_forces_w.sum(dim=1)[0] - weight) * backend.dt
    assert impulse[2] > -40 * backend.dt * WEIGHT + 1.0, "nothing touched the ground"
    torch.testing.assert_close(momentum() - before, impulse, rtol=0.02, atol=0.05)


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (ContactSensorCfg(entity="dog"), "no 'dog'. It has: robot"),
        (ContactSensorCfg(filter_entities=("cat",)), "no 'cat'. There are: terrain, robot"),
        (ContactSensorCfg(history_length=0), "history_length must be at least 1, got 0"),
        (ContactSensorCfg(force_threshold=-1.0), "force_threshold must not be negative"),
        (SensorCfg(), "no sensor is registered for a SensorCfg"),
    ],
)
def test_impossible_settings_are_refused(cfg, message):
    with pytest.raises(ConfigError, match=message):
        make({"feet": cfg}, CPU)


def test_unknown_bodies_are_refused():
    with pytest.raises(UnknownNameError, match="body of 'robot'.*feet.*'wheel'"):
        make({"feet": ContactSensorCfg(body_names=("wheel",))}, CPU)
    with pytest.raises(UnknownNameError, match="filter_entities.*'wheel'"):
        make({"feet": ContactSensorCfg(filter_entities=("robot/wheel",))}, CPU)


def test_other_solvers_are_refused():
    with pytest.raises(ConfigError, match="'feet'.*MuJoCo Warp.*SolverFeatherstone"):
        make({"feet": ContactSensorCfg()}, CPU, solver=NewtonSolverCfg(name="SolverFeatherstone"))
