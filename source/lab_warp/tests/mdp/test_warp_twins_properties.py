"""Twins of events that randomise properties: equal to torch without chance, and distributed as they say with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import lab_warp.mdp  # noqa: F401  (registers the twins)
from lab_core import mdp
from lab_core.managers import SceneEntityCfg
from lab_warp.testing import CapturedEvent, FakeEnv, TwinCase, check_event_twin, check_signature, rng_model, twins_in
from lab_warp.testing.twin_gate import BoundTerm
from lab_warp.twins import find_twin

MANY = 4096

# Choices out of order, so that a twin that ignores them or sorts them fails.
BODIES = SceneEntityCfg("robot", body_names=("foot", "base"), preserve_order=True)
JOINTS = SceneEntityCfg("robot", joint_names=("toe", "hip"), preserve_order=True)
FOOT, BASE, TOE, HIP = 3, 0, 3, 0


def build_properties(env: FakeEnv) -> None:
    """Properties as built, of 1 to 2, and an engine that takes every notice."""
    generator = torch.Generator().manual_seed(3)
    for value in env.scene["robot"].default_properties.values():
        value.copy_(1.0 + torch.rand(value.shape, generator=generator))
    env.notices = []
    env.physics.notify = lambda *names: env.notices.append(names)


def case(**params) -> TwinCase:
    return TwinCase(params=params, prepare=build_properties)


WAYS = [
    {"distribution": distribution, "operation": operation}
    for distribution in ("uniform", "log_uniform", "gaussian")
    for operation in ("add", "scale", "abs")
]


def fixed(way: dict[str, str]) -> tuple[float, float]:
    """Parameters that leave nothing to chance."""
    return (0.3, 0.0) if way["distribution"] == "gaussian" else (0.3, 0.3)


CASES: dict[str, list[TwinCase]] = {
    "randomize_actuator_gains": [
        *[case(stiffness_distribution_params=fixed(way), asset_cfg=JOINTS, **way) for way in WAYS],
        case(damping_distribution_params=(-5.0, -5.0), operation="add"),
        case(stiffness_distribution_params=(2.0, 2.0), damping_distribution_params=(3.0, 3.0)),
    ],
    "randomize_joint_parameters": [
        *[case(friction_distribution_params=fixed(way), asset_cfg=JOINTS, **way) for way in WAYS],
        case(friction_distribution_params=(2.0, 2.0), armature_distribution_params=(-3.0, -3.0)),
    ],
    "randomize_rigid_body_mass": [
        *[case(mass_distribution_params=fixed(way), asset_cfg=BODIES, **way) for way in WAYS],
        case(mass_distribution_params=(0.0, 0.0), operation="scale", distribution="gaussian"),
        case(mass_distribution_params=(0.5, 0.5), operation="add", recompute_inertia=False),
    ],
    "randomize_rigid_body_com": [case(com_range={"x": (0.1, 0.1), "z": (-0.2, -0.2)}, asset_cfg=BODIES)],
    "randomize_rigid_body_material": [
        case(friction_range=(0.6, 0.6), asset_cfg=BODIES),
        case(friction_range=(0.6, 0.6), per_body=True),
    ],
    "apply_external_force_torque": [
        case(force_range=(3.0, 3.0), torque_range=(-1.0, -1.0), asset_cfg=BODIES),
        case(force_range=(0.0, 0.0), torque_range=(-1.0, -1.0)),
    ],
}
TWINS = twins_in(mdp.events_properties)


def make_env(device: str, num_envs: int = MANY) -> FakeEnv:
    """An environment whose properties are all 1 as built."""
    env = FakeEnv(device, num_envs)
    build_properties(env)
    for value in env.scene["robot"].default_properties.values():
        value.fill_(1.0)
    return env


def test_every_event_has_a_twin_and_every_twin_a_case() -> None:
    events = {
        name
        for name in mdp.__all__
        if getattr(getattr(mdp, name), "__module__", None) == mdp.events_properties.__name__
    }
    assert set(TWINS) == set(CASES) == events


@pytest.mark.parametrize("name", TWINS)
def test_twin_takes_the_parameters_of_its_event(name: str) -> None:
    check_signature(TWINS[name])


@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, c, id=f"{name}-{i}") for name, cs in CASES.items() for i, c in enumerate(cs)]
)
def test_twin_replays_what_its_event_does(name: str, case: TwinCase, device: str) -> None:
    check_event_twin(TWINS[name], case, device)


@pytest.mark.parametrize("name", CASES)
def test_the_engine_is_told_what_torch_tells_it(name: str) -> None:
    for one in CASES[name]:
        wanted, actual = FakeEnv(), FakeEnv()
        for env in (wanted, actual):
            build_properties(env)
        BoundTerm(TWINS[name], wanted, one.params, ("mask",))(wanted, wanted.reset_mask)
        CapturedEvent(TWINS[name], actual, **one.params)()
        assert actual.notices == wanted.notices


# Distributions ----------------------------------------------------------------------------------------------------


def assert_independent(values: torch.Tensor) -> None:
    """Columns of (N, K), and neighbouring environments, are uncorrelated."""
    series = torch.cat([values, values.roll(1, dims=0)], dim=1).double()
    off_diagonal = torch.corrcoef(series.T) - torch.eye(series.shape[1], device=values.device)
    assert off_diagonal.abs().max() < 5.0 / math.sqrt(len(values))


def test_uniform_gains(device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    event = CapturedEvent(
        mdp.randomize_actuator_gains,
        env,
        stiffness_distribution_params=(0.8, 1.2),
        damping_distribution_params=(2.0, 4.0),
        operation="scale",
    )
    event()
    gains = torch.cat([data.joint_stiffness, data.joint_damping], dim=1)
    units = torch.cat([(gains[:, :5] - 0.8) / 0.4, (gains[:, 5:] - 2.0) / 2.0], dim=1)
    assert units.min() > -1e-6 and units.max() < 1.0 + 1e-6
    torch.testing.assert_close(units.mean(dim=0), torch.full((10,), 0.5, device=env.device), atol=0.03, rtol=0.0)
    assert_independent(units)
    event()
    assert (torch.cat([data.joint_stiffness, data.joint_damping], dim=1) == gains).float().mean() < 1e-3


def test_log_uniform_gains_have_uniform_logarithms(device: str) -> None:
    env = make_env(device)
    stiffness = env.scene["robot"].data.joint_stiffness
    CapturedEvent(
        mdp.randomize_actuator_gains,
        env,
        stiffness_distribution_params=(0.1, 10.0),
        operation="abs",
        distribution="log_uniform",
    )()
    assert stiffness.min() >= 0.1 and stiffness.max() <= 10.0
    units = (stiffness.log10() + 1.0) / 2.0
    torch.testing.assert_close(units.mean(dim=0), torch.full((5,), 0.5, device=env.device), atol=0.03, rtol=0.0)
    torch.testing.assert_close(units.var(dim=0), torch.full((5,), 1.0 / 12.0, device=env.device), atol=0.01, rtol=0.0)
    assert_independent(units)


def test_gaussian_friction_has_its_mean_and_deviation_and_is_never_negative(device: str) -> None:
    env = make_env(device)
    friction = env.scene["robot"].data.joint_friction
    params = {"operation": "add", "distribution": "gaussian"}
    CapturedEvent(mdp.randomize_joint_parameters, env, friction_distribution_params=(4.0, 0.5), **params)()
    torch.testing.assert_close(friction.mean(dim=0), torch.full((5,), 5.0, device=env.device), atol=0.05, rtol=0.0)
    torch.testing.assert_close(friction.std(dim=0), torch.full((5,), 0.5, device=env.device), atol=0.05, rtol=0.0)
    assert_independent(friction)
    CapturedEvent(mdp.randomize_joint_parameters, env, friction_distribution_params=(-1.0, 1.0), **params)()
    assert friction.min() == 0.0 and 0.4 < (friction == 0.0).float().mean() < 0.6


def test_masses_keep_a_share_and_inertia_follows(device: str) -> None:
    env = make_env(device)
    data = env.scene["robot"].data
    CapturedEvent(
        mdp.randomize_rigid_body_mass,
        env,
        mass_distribution_params=(0.5, 1.0),
        operation="scale",
        distribution="gaussian",
    )()
    assert data.body_mass.min() == torch.tensor(0.01)
    assert torch.equal(data.body_inertia_b, data.body_mass[..., None, None].expand_as(data.body_inertia_b))
    assert_independent(data.body_mass)


def test_massless_frames_stay_so_and_keep_their_inertia(device: str) -> None:
    env = make_env(device)
    env.scene["robot"].default_properties["body_mass"][:, FOOT] = 0.0
    CapturedEvent(mdp.randomize_rigid_body_mass, env, mass_distribution_params=(0.5, 2.0), operation="scale")()
    data = env.scene["robot"].data
    assert (data.body_mass[:, FOOT] == 0.0).all() and (data.body_inertia_b[:, FOOT] == 1.0).all()
    assert data.body_mass[:, BASE].unique().numel() > MANY // 2


def test_bodies_share_one_offset_of_the_centre_of_mass(device: str) -> None:
    env = make_env(device)
    com = env.scene["robot"].data.body_com_pos_b
    CapturedEvent(mdp.randomize_rigid_body_com, env, com_range={"x": (-0.1, 0.1), "y": (0.2, 0.4)})()
    assert torch.equal(com, com[:, :1].expand_as(com))
    assert (com[..., 2] == 1.0).all()
    assert com[..., 0].min() >= 0.9 and com[..., 0].max() <= 1.1 and abs(com[..., 0].mean() - 1.0) < 0.01
    assert com[..., 1].min() >= 1.2 and com[..., 1].max() <= 1.4 and abs(com[..., 1].mean() - 1.3) < 0.01
    assert_independent(com[:, 0, :2])


@pytest.mark.parametrize("per_body", [False, True])
def test_bodies_share_their_friction_unless_each_has_its_own(per_body: bool, device: str) -> None:
    env = make_env(device)
    friction = env.scene["robot"].data.body_friction
    CapturedEvent(mdp.randomize_rigid_body_material, env, friction_range=(0.4, 1.2), per_body=per_body)()
    assert friction.min() >= 0.4 and friction.max() <= 1.2 and abs(friction[:, 0].mean() - 0.8) < 0.02
    if per_body:
        assert_independent(friction)
    else:
        assert torch.equal(friction, friction[:, :1].expand_as(friction))
        assert_independent(friction[:, :1])


def test_wrenches_are_drawn_per_axis_and_body(device: str) -> None:
    env = make_env(device)
    env.rng.seed(2)
    wrench = env.scene["robot"].data.body_wrench_w
    wrench.fill_(7.0)
    CapturedEvent(
        mdp.apply_external_force_torque, env, force_range=(-3.0, 3.0), torque_range=(0.0, 1.0), asset_cfg=BODIES
    )()
    drawn = torch.cat([wrench[:, FOOT], wrench[:, BASE]], dim=1)
    state = rng_model.rand_init(2, np.arange(MANY))
    for column in range(12):
        unit, state = rng_model.randf(state)
        low, high = np.float32([-3.0, 3.0]) if column % 6 < 3 else np.float32([0.0, 1.0])
        np.testing.assert_array_equal(drawn[:, column].cpu().numpy(), (high - low) * unit + low)
    assert_independent(drawn)
    assert (wrench[:, 1:3] == 7.0).all()


def test_zero_wrenches_neither_draw_nor_clear(device: str) -> None:
    env = make_env(device, num_envs=8)
    streams = env.rng.state.numpy().copy()
    wrench = env.scene["robot"].data.body_wrench_w.fill_(7.0)
    event = CapturedEvent(mdp.apply_external_force_torque, env, force_range=(0.0, 0.0), torque_range=(0.0, 0.0))
    event()
    event()
    assert (wrench == 7.0).all()
    np.testing.assert_array_equal(env.rng.state.numpy(), streams)


def test_draws_start_from_the_properties_as_built_each_time(device: str) -> None:
    env = make_env(device, num_envs=8)
    data = env.scene["robot"].data
    events = [
        CapturedEvent(mdp.randomize_rigid_body_com, env, com_range={"x": (0.5, 0.5)}),
        CapturedEvent(mdp.randomize_actuator_gains, env, stiffness_distribution_params=(2.0, 2.0), operation="scale"),
    ]
    for _ in range(3):
        for event in events:
            event()
    assert (data.body_com_pos_b[..., 0] == 1.5).all()
    assert (data.joint_stiffness == 2.0).all()


@pytest.mark.parametrize("name", CASES)
def test_environments_outside_the_mask_keep_state_and_stream(name: str, device: str) -> None:
    params = {
        "randomize_actuator_gains": {"stiffness_distribution_params": (1.0, 2.0)},
        "randomize_joint_parameters": {"friction_distribution_params": (1.0, 2.0), "distribution": "gaussian"},
        "randomize_rigid_body_mass": {"mass_distribution_params": (1.0, 2.0), "operation": "abs"},
        "randomize_rigid_body_com": {"com_range": {"x": (0.0, 1.0)}},
        "randomize_rigid_body_material": {"friction_range": (0.5, 1.0)},
        "apply_external_force_torque": {"force_range": (0.0, 1.0), "torque_range": (0.0, 1.0)},
    }[name]
    env = FakeEnv(device)
    build_properties(env)
    event = CapturedEvent(TWINS[name], env, **params)
    for seed in range(3):
        mask = torch.rand(env.num_envs, generator=torch.Generator().manual_seed(seed)) < 0.5
        before = {key: tensor.clone() for key, tensor in env.tensors().items()}
        streams = env.rng.state.numpy().copy()
        event(mask)
        np.testing.assert_array_equal(env.rng.state.numpy() != streams, mask.numpy())
        changed = [key for key, tensor in env.tensors().items() if not torch.equal(tensor, before[key])]
        assert changed
        for key in changed:
            rows = (env.tensors()[key] != before[key]).flatten(start_dim=1).any(dim=1)
            assert torch.equal(rows.cpu(), mask), key


# Errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("randomize_rigid_body_com", {"com_range": {"yaw": (0.0, 1.0)}}),
        ("randomize_rigid_body_material", {"friction_range": (0.001, 1.0)}),
    ],
)
def test_wrong_parameters_are_refused_as_in_torch(name: str, params) -> None:
    errors = []
    for function in (TWINS[name], find_twin(TWINS[name])):
        env = FakeEnv()
        with pytest.raises(ValueError) as caught:
            function(env, env.reset_mask if not errors else env.warp.reset_mask, **params)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1]) and str(errors[0]) == str(errors[1])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"stiffness_distribution_params": (2.0, 1.0)}, "low <= high"),
        ({"stiffness_distribution_params": (1.0, 2.0), "operation": "plus"}, "operation"),
        ({"stiffness_distribution_params": (1.0, 2.0), "distribution": "normal"}, "distribution"),
        ({"stiffness_distribution_params": (0.0, 2.0), "distribution": "log_uniform"}, "positive"),
        ({"stiffness_distribution_params": (0.0, -2.0), "distribution": "gaussian"}, "must not be negative"),
    ],
)
def test_impossible_draws_are_refused(params, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CapturedEvent(mdp.randomize_actuator_gains, FakeEnv(), **params)()
