"""The gap sensor against geometry, and against forces."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSensorCfg, ContactSetCfg, GapSensorCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg, NewtonSolverCfg
from lab_newton.backend import NewtonBackend

CPU = torch.device("cpu")
ASSETS = Path(__file__).parents[1] / "newton_assets"
FOOT_HEIGHT = 0.23
"""Of the root, when the feet touch the ground with straight legs."""
FEET = ("front_left", "front_right", "rear_left", "rear_right")


def make(height: float, num_envs: int = 3, solver=None, **gap) -> NewtonBackend:
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=200.0, damping=4.0, effort_limit=100.0)
    robot = ArticulationCfg(
        asset=str(ASSETS / "walker.xml"), init_state=InitialStateCfg(pos=(0.0, 0.0, height)), actuators={"legs": legs}
    )
    gap = {"distance": 0.1, "touch_threshold": 0.0} | gap
    sensors = {"gaps": GapSensorCfg(**gap)}
    if solver is None:
        sensors["forces"] = ContactSensorCfg(force_threshold=0.0)
    solver = solver or MuJoCoSolverCfg(njmax=100, nconmax=24)
    return NewtonBackend(NewtonCfg(dt=0.005, solver=solver), SceneCfg(entities={"robot": robot}, sensors=sensors),
                         num_envs, CPU)  # fmt: skip


@pytest.fixture(scope="module")
def backend() -> NewtonBackend:
    return make(FOOT_HEIGHT + 0.06)


def test_a_falling_foot_is_as_far_from_the_ground_as_the_fall_leaves(backend):
    gaps = backend.sensors["gaps"]
    fresh = backend.state_dict()
    feet = gaps.find_bodies(FEET)
    for step in range(12):
        backend.step(1)
        # Of the state in which the step began, by the rule of the integrator.
        fallen = 9.81 * 0.005**2 * step * (step + 1) / 2
        torch.testing.assert_close(gaps.min_gap[:, feet], torch.full((3, 4), 0.06 - fallen), rtol=0.0, atol=2e-5)
        assert not gaps.touch_history.any() and (gaps.air_steps == step + 1).all()
    assert (gaps.min_gap[:, gaps.find_bodies("base")] == 0.1).all(), "nothing is nearer to the trunk than distance"
    backend.load_state_dict(fresh)


def test_touches_are_where_forces_are_and_last_as_long(backend):
    gaps, forces = backend.sensors["gaps"], backend.sensors["forces"]
    fresh = backend.state_dict()
    feet = gaps.find_bodies(FEET)
    differing = 0
    for _ in range(200):
        backend.step(1)
        differing += int((gaps.touch_history[:, 0] != (forces.net_forces_w.norm(dim=-1) > 0.0)).sum())
    # A foot that rises fast from inside the ground is not pushed any more.
    assert differing <= 0.01 * 200 * gaps.min_gap.numel()
    assert (gaps.contact_steps[:, feet] > 100).all() and (gaps.current_air_time[:, feet] == 0.0).all()
    torch.testing.assert_close(gaps.last_air_time[:, feet], forces.last_air_time[:, feet], rtol=0.0, atol=0.006)
    assert gaps.compute_first_contact(0.02).sum() == forces.compute_first_contact(0.02).sum() == 0
    backend.load_state_dict(fresh)


def test_history_keeps_touches_that_have_passed():
    backend = make(FOOT_HEIGHT + 0.001, history_length=6, touch_threshold=0.002)
    gaps = backend.sensors["gaps"]
    backend.step(4)
    feet = gaps.find_bodies(FEET)
    assert gaps.touch_history.shape[1] == 6
    assert gaps.touch_history[:, :, feet].sum(dim=1).unique().tolist() == [4], "since the first step"
    assert (gaps.contact_steps[:, feet] == 4).all()


def test_a_masked_reset_clears_its_worlds_alone(backend):
    fresh = backend.state_dict()
    backend.step(100)
    gaps = backend.sensors["gaps"]
    before = gaps.contact_steps.clone()
    mask = torch.tensor([False, True, False])
    backend.reset(mask)
    assert (gaps.min_gap[1] == 0.1).all() and not gaps.touch_history[1].any() and not gaps.contact_steps[1].any()
    assert torch.equal(gaps.contact_steps[~mask], before[~mask]) and before[0].any()
    backend.load_state_dict(fresh)


def test_gaps_need_no_forces_from_the_solver():
    backend = make(FOOT_HEIGHT + 0.01, solver=NewtonSolverCfg(name="SolverFeatherstone", contacts=False))
    backend.step(40)
    gaps = backend.sensors["gaps"]
    assert gaps.touch_history[:, 0, gaps.find_bodies(FEET)].all(), "it fell through the ground"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"touch_threshold": 0.1}, "touch_threshold must be smaller than distance"),
        ({"history_length": 0}, r"sensors\['gaps'\].history_length must be at least 1, got 0"),
        ({"distance": -0.1, "touch_threshold": -0.2}, r"sensors\['gaps'\].distance must be positive"),
        ({"capacity": 0}, r"sensors\['gaps'\].capacity must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(0.5, **settings)


def test_who_looks_at_contacts_shares_one_set():
    scene = SceneCfg(
        entities={"robot": ArticulationCfg(asset=str(ASSETS / "walker.xml"), actuators={})},
        sensors={"gaps": GapSensorCfg(distance=0.1), "contacts": ContactSetCfg(distance=0.05)},
    )
    with pytest.raises(ConfigError, match="share one set, and they ask for different ones"):
        NewtonBackend(NewtonCfg(dt=0.005), scene, 1, CPU)
