"""Events that randomise properties: ranges, means, sharing, defaults, and what they refuse."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.managers import EventManager, EventTermCfg, SceneEntityCfg, TermError
from lab_core.scene import Articulation, ArticulationCfg, ArticulationData, LSTMActuatorCfg

N = 1000
ALL = torch.ones(N, dtype=torch.bool)
SOME = torch.arange(N) % 3 == 0
BASE = SceneEntityCfg("robot", body_names=("base",))
FEET = SceneEntityCfg("robot", body_names=("left_foot", "right_foot"))
MASSES = (5.0, 1.0, 2.0, 0.0)
NAMES = ("base", "left_foot", "right_foot", "frame")


@pytest.fixture
def env() -> SimpleNamespace:
    """What events use of an environment, with a robot of four bodies, the last without mass, and two joints."""
    data = ArticulationData(N, ("hip", "knee"), NAMES, fixed_base=False, device="cpu")
    data.body_mass.copy_(torch.tensor(MASSES))
    data.body_inertia_b.copy_(torch.diag(torch.tensor([0.1, 0.2, 0.3])) * data.body_mass[..., None, None])
    data.body_com_pos_b.copy_(torch.tensor([0.1, 0.0, -0.2]))
    data.body_friction.fill_(0.8)
    data.joint_friction.fill_(0.5)
    data.joint_armature.fill_(0.02)
    data.joint_stiffness.fill_(20.0)
    notices: list[tuple[str, ...]] = []
    physics = SimpleNamespace(
        num_envs=N, device=torch.device("cpu"), notify=lambda *names: notices.append(names), ignored_buffers=()
    )
    return SimpleNamespace(
        num_envs=N,
        device=torch.device("cpu"),
        generator=torch.Generator().manual_seed(0),
        physics=physics,
        notices=notices,
        scene={"robot": Articulation("robot", ArticulationCfg(asset="none", actuators={}), data, physics)},
        max_episode_length_s=20.0,
    )


def data_of(env) -> ArticulationData:
    return env.scene["robot"].data


def event(env, func, **params) -> EventManager:
    return EventManager({"event": EventTermCfg(func=func, params=params)}, env)


def run(env, func, mask=ALL, **params) -> None:
    event(env, func, **params).apply("reset", mask, step_count=0)


def check_uniform(values: torch.Tensor, low: float, high: float) -> None:
    assert low <= values.min() < low + 0.02 * (high - low)
    assert high >= values.max() > high - 0.02 * (high - low)
    assert values.mean().item() == pytest.approx((low + high) / 2, abs=0.04 * (high - low))
    assert values.std().item() == pytest.approx((high - low) / 12**0.5, rel=0.06)


@pytest.mark.parametrize(
    ("operation", "params", "low", "high"),
    [("abs", (2.0, 6.0), 2.0, 6.0), ("add", (-1.0, 3.0), 4.0, 8.0), ("scale", (0.8, 1.2), 4.0, 6.0)],
)
def test_masses(env, operation, params, low, high):
    data = data_of(env)
    inertia = data.body_inertia_b.clone()
    run(env, mdp.randomize_rigid_body_mass, mass_distribution_params=params, operation=operation, asset_cfg=BASE)
    check_uniform(data.body_mass[:, 0], low, high)
    assert torch.equal(data.body_mass[:, 1:], torch.tensor(MASSES[1:]).expand(N, 3))
    ratio = data.body_mass[:, 0] / 5.0
    torch.testing.assert_close(data.body_inertia_b[:, 0], inertia[:, 0] * ratio[:, None, None])
    assert torch.equal(data.body_inertia_b[:, 1:], inertia[:, 1:])
    assert env.notices == [("robot", "body_mass", "body_inertia_b")]


def test_log_uniform_masses_have_a_uniform_logarithm(env):
    params = {"mass_distribution_params": (0.8, 1.25), "operation": "scale", "distribution": "log_uniform"}
    run(env, mdp.randomize_rigid_body_mass, **params, asset_cfg=BASE)
    ratio = data_of(env).body_mass[:, 0] / 5.0
    check_uniform(ratio.log(), -0.22314, 0.22314)


def test_a_gaussian_leaves_some_mass(env):
    params = {"mass_distribution_params": (0.0, 10.0), "operation": "add", "distribution": "gaussian"}
    run(env, mdp.randomize_rigid_body_mass, **params, asset_cfg=BASE)
    assert data_of(env).body_mass[:, 0].min().item() == pytest.approx(0.05)


def test_the_inertia_can_stay(env):
    before = data_of(env).body_inertia_b.clone()
    params = {"mass_distribution_params": (2.0, 3.0), "operation": "scale", "recompute_inertia": False}
    run(env, mdp.randomize_rigid_body_mass, **params, asset_cfg=BASE)
    assert torch.equal(data_of(env).body_inertia_b, before)


@pytest.mark.parametrize(
    ("operation", "params", "message"),
    [
        ("add", (-1.0, 1.0), r"\(-1.0, 1.0\) \(add\) could give body 'left_foot' of 1 kg a mass of 0 kg"),
        ("scale", (0.0, 1.0), "'left_foot' of 1 kg a mass of 0 kg. Masses must stay positive"),
        ("abs", (-1.0, 1.0), "'left_foot' of 1 kg a mass of -1 kg"),
        ("scale", (2.0, 1.0), "mass_distribution_params must have low <= high"),
        ("times", (1.0, 2.0), "'times'.*abs"),
    ],
)
def test_ranges_without_mass_are_refused_when_the_event_is_built(env, operation, params, message):
    with pytest.raises(TermError, match=message):
        event(env, mdp.randomize_rigid_body_mass, mass_distribution_params=params, operation=operation, asset_cfg=FEET)


def test_a_massless_frame_is_scaled_but_given_no_mass(env):
    every = {"mass_distribution_params": (0.5, 2.0), "asset_cfg": SceneEntityCfg("robot")}
    run(env, mdp.randomize_rigid_body_mass, **every, operation="scale")
    assert not data_of(env).body_mass[:, 3].any()
    assert data_of(env).body_inertia_b.isfinite().all()


def test_centres_of_mass_move_together(env):
    data = data_of(env)
    run(env, mdp.randomize_rigid_body_com, com_range={"x": (-0.05, 0.05), "z": (0.0, 0.01)}, asset_cfg=FEET)
    offset = data.body_com_pos_b - torch.tensor([0.1, 0.0, -0.2])
    check_uniform(offset[:, 1, 0], -0.05, 0.05)
    check_uniform(offset[:, 1, 2], 0.0, 0.01)
    assert not offset[:, 1, 1].any()
    assert torch.equal(offset[:, 1], offset[:, 2])
    assert not offset[:, [0, 3]].any()
    assert env.notices == [("robot", "body_com_pos_b")]
    with pytest.raises(TermError, match="com_range.*'yaw'"):
        run(env, mdp.randomize_rigid_body_com, com_range={"yaw": (0.0, 1.0)})


def test_feet_share_their_friction_unless_told_otherwise(env):
    data = data_of(env)
    run(env, mdp.randomize_rigid_body_material, friction_range=(0.4, 1.2), asset_cfg=FEET)
    check_uniform(data.body_friction[:, 1], 0.4, 1.2)
    assert torch.equal(data.body_friction[:, 1], data.body_friction[:, 2])
    assert (data.body_friction[:, [0, 3]] == 0.8).all()
    run(env, mdp.randomize_rigid_body_material, friction_range=(0.4, 1.2), per_body=True, asset_cfg=FEET)
    check_uniform(data.body_friction[:, 2], 0.4, 1.2)
    assert torch.corrcoef(data.body_friction[:, 1:3].T)[0, 1].abs() < 0.1
    assert env.notices == [("robot", "body_friction")] * 2
    with pytest.raises(TermError, match="friction_range must be at least 0.01, got"):
        run(env, mdp.randomize_rigid_body_material, friction_range=(0.0, 1.0))


def test_a_network_has_no_gains_to_draw(env):
    drive = LSTMActuatorCfg(joint_names=("knee",), network_file="none", saturation_effort=1.0, velocity_limit=1.0)
    env.scene["robot"].cfg.actuators["drives"] = drive
    params = {"stiffness_distribution_params": (0.8, 1.2), "operation": "scale"}
    with pytest.raises(TermError, match=r"actuators\['drives'\].*LSTMActuatorCfg, which has no stiffness.*drives knee"):
        EventManager({"gains": EventTermCfg(func=mdp.randomize_actuator_gains, params=params)}, env)
    params["asset_cfg"] = SceneEntityCfg("robot", joint_names=("hip",))
    EventManager({"gains": EventTermCfg(func=mdp.randomize_actuator_gains, params=params)}, env)


def test_joint_parameters(env):
    data, knee = data_of(env), SceneEntityCfg("robot", joint_names=("knee",))
    params = {"operation": "scale", "asset_cfg": knee}
    run(env, mdp.randomize_joint_parameters, friction_distribution_params=(0.5, 1.5), **params)
    check_uniform(data.joint_friction[:, 1], 0.25, 0.75)
    assert (data.joint_friction[:, 0] == 0.5).all()
    assert (data.joint_armature == 0.02).all()
    run(env, mdp.randomize_joint_parameters, armature_distribution_params=(1.0, 3.0), **params)
    check_uniform(data.joint_armature[:, 1], 0.02, 0.06)
    assert env.notices == [("robot", "joint_friction"), ("robot", "joint_armature")]
    run(env, mdp.randomize_joint_parameters, friction_distribution_params=(-1.0, 0.0), operation="add")
    assert data.joint_friction.min() == 0.0


EVENTS = {
    "mass": (mdp.randomize_rigid_body_mass, {"mass_distribution_params": (0.9, 1.1), "operation": "scale"}),
    "com": (mdp.randomize_rigid_body_com, {"com_range": {"x": (-0.03, 0.03)}}),
    "material": (mdp.randomize_rigid_body_material, {"friction_range": (0.4, 0.6)}),
    "gains": (mdp.randomize_actuator_gains, {"stiffness_distribution_params": (0.9, 1.1), "operation": "scale"}),
    "joints": (mdp.randomize_joint_parameters, {"friction_distribution_params": (-0.1, 0.1), "operation": "add"}),
    "wrench": (mdp.apply_external_force_torque, {"force_range": (-1.0, 1.0), "torque_range": (0.0, 2.0)}),
}
BUFFERS = {
    "mass": ("body_mass", 4.5, 5.5),
    "com": ("body_com_pos_b", 0.07, 0.13),
    "material": ("body_friction", 0.4, 0.6),
    "gains": ("joint_stiffness", 18.0, 22.0),
    "joints": ("joint_friction", 0.4, 0.6),
    "wrench": ("body_wrench_w", -1.0, 1.0),
}


@pytest.mark.parametrize("name", EVENTS)
def test_draws_never_accumulate(env, name):
    func, params = EVENTS[name]
    field, low, high = BUFFERS[name]
    manager = event(env, func, **params)
    for _ in range(50):
        manager.apply("reset", ALL, step_count=0)
    first = getattr(data_of(env), field).reshape(N, -1)[:, 0]
    check_uniform(first, low, high)
    manager.set_term_cfg("event", EventTermCfg(func=func, params=params))
    manager.apply("reset", ALL, step_count=0)
    check_uniform(getattr(data_of(env), field).reshape(N, -1)[:, 0], low, high)


@pytest.mark.parametrize("name", EVENTS)
def test_other_environments_stay_bitwise_unchanged(env, name):
    func, params = EVENTS[name]
    buffer = getattr(data_of(env), BUFFERS[name][0])
    before, address = buffer.clone(), buffer.data_ptr()
    run(env, func, mask=SOME, **params)
    changed = (buffer != before).reshape(N, -1).any(dim=1)
    assert torch.equal(changed, SOME)
    assert getattr(data_of(env), BUFFERS[name][0]).data_ptr() == address


def test_a_zero_range_gives_the_default_bitwise(env):
    before = {name: value.clone() for name, value in env.scene["robot"].default_properties.items()}
    run(env, mdp.randomize_rigid_body_mass, mass_distribution_params=(1.0, 1.0), operation="scale")
    run(env, mdp.randomize_rigid_body_com, com_range={})
    run(env, mdp.randomize_joint_parameters, friction_distribution_params=(0.0, 0.0), operation="add")
    for name, value in before.items():
        assert torch.equal(getattr(data_of(env), name), value), name


def test_external_forces(env):
    data = data_of(env)
    run(env, mdp.apply_external_force_torque, force_range=(-3.0, 1.0), torque_range=(-0.2, 0.2), asset_cfg=BASE)
    check_uniform(data.body_wrench_w[:, 0, :3], -3.0, 1.0)
    check_uniform(data.body_wrench_w[:, 0, 3:], -0.2, 0.2)
    assert not data.body_wrench_w[:, 1:].any()
    before, random_state = data.body_wrench_w.clone(), env.generator.get_state()
    run(env, mdp.apply_external_force_torque, force_range=(0.0, 0.0), torque_range=(0.0, 0.0))
    assert torch.equal(data.body_wrench_w, before)
    assert torch.equal(env.generator.get_state(), random_state)
