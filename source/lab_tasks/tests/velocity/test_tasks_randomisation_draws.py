"""Draws without physics that the tasks do not use, over 1,000 samples: Gaussians, draws per body, biases and delays."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.managers import EventManager, EventTermCfg, ObservationGroupCfg, ObservationManager, ObservationTermCfg
from lab_core.scene import Articulation, ArticulationCfg, ArticulationData
from lab_core.seeding import make_generator
from lab_core.signals import GaussianNoiseCfg, NoiseWithBiasCfg, UniformNoiseCfg

N = 1000
ALL = torch.ones(N, dtype=torch.bool)


@pytest.fixture
def env() -> SimpleNamespace:
    """What events use of an environment, with a robot of three bodies and two joints."""
    data = ArticulationData(N, ("hip", "knee"), ("base", "left", "right"), fixed_base=False, device="cpu")
    data.body_mass.copy_(torch.tensor([5.0, 1.0, 1.0]))
    data.body_friction.fill_(0.8)
    data.joint_damping.fill_(2.0)
    data.joint_armature.fill_(0.02)
    data.joint_pos_limits[...] = torch.tensor([-3.0, 3.0])
    data.soft_joint_pos_limits[...] = torch.tensor([-3.0, 3.0])
    data.default_joint_pos.copy_(torch.tensor([0.5, -1.0]))
    data.default_joint_vel.copy_(torch.tensor([0.0, 2.0]))
    physics = SimpleNamespace(
        num_envs=N,
        device=torch.device("cpu"),
        notify=lambda *names: None,
        mark_written=lambda mask: None,
        ignored_buffers=(),
    )
    return SimpleNamespace(
        num_envs=N,
        device=torch.device("cpu"),
        generator=make_generator(0),
        physics=physics,
        scene={"robot": Articulation("robot", ArticulationCfg(asset="none", actuators={}), data, physics)},
        max_episode_length_s=20.0,
    )


def run(env, func, times: int = 1, **params) -> ArticulationData:
    manager = EventManager({"event": EventTermCfg(func=func, params=params)}, env)
    for _ in range(times):
        manager.apply("reset", ALL, step_count=0)
    return env.scene["robot"].data


def check_uniform(values: torch.Tensor, low: float, high: float) -> None:
    """Within 4.5 standard errors of mean and spread."""
    width, n = high - low, values.numel()
    assert low <= values.min() < low + 12.0 * width / n
    assert high >= values.max() > high - 12.0 * width / n
    assert values.mean().item() == pytest.approx((low + high) / 2, abs=4.5 * width / math.sqrt(12 * n))
    assert values.std().item() == pytest.approx(width / math.sqrt(12), rel=4.5 * math.sqrt(0.2 / n))


def check_gaussian(values: torch.Tensor, mean: float, std: float) -> None:
    n = values.numel()
    assert values.mean().item() == pytest.approx(mean, abs=4.5 * std / math.sqrt(n))
    assert values.std().item() == pytest.approx(std, rel=4.5 / math.sqrt(2 * n))
    within = ((values - mean).abs() < std).float().mean().item()
    assert within == pytest.approx(0.6827, abs=4.5 * math.sqrt(0.22 / n))


def check_independent(columns: torch.Tensor) -> None:
    correlation = torch.corrcoef(columns.T) - torch.eye(columns.shape[1])
    assert correlation.abs().max() < 5.0 / math.sqrt(N)


@pytest.mark.parametrize(
    ("operation", "params", "mean", "std"),
    [("abs", (4.0, 0.2), 4.0, 0.2), ("add", (0.5, 0.3), 5.5, 0.3), ("scale", (1.1, 0.05), 5.5, 0.25)],
)
def test_gaussian_masses(env, operation, params, mean, std):
    how = {"operation": operation, "distribution": "gaussian"}
    data = run(env, mdp.randomize_rigid_body_mass, times=3, mass_distribution_params=params, **how)
    check_gaussian(data.body_mass[:, 0], mean, std)
    check_independent(data.body_mass)


@pytest.mark.parametrize(
    ("operation", "params", "low", "high"),
    [("abs", (1.0, 3.0), 1.0, 3.0), ("add", (-0.5, 1.0), 1.5, 3.0), ("scale", (0.5, 1.5), 1.0, 3.0)],
)
def test_damping_of_every_joint_by_itself(env, operation, params, low, high):
    how = {"operation": operation, "damping_distribution_params": params}
    data = run(env, mdp.randomize_actuator_gains, times=3, **how)
    for column in data.joint_damping.T:
        check_uniform(column, low, high)
    check_independent(data.joint_damping)
    assert not data.joint_stiffness.any()


def test_gaussian_and_log_uniform_joints(env):
    data = run(
        env,
        mdp.randomize_joint_parameters,
        armature_distribution_params=(0.5, 2.0),
        operation="scale",
        distribution="log_uniform",
    )
    for column in data.joint_armature.T:
        check_uniform((column / 0.02).log() / math.log(2.0), -1.0, 1.0)
    check_independent(data.joint_armature)
    run(
        env,
        mdp.randomize_actuator_gains,
        damping_distribution_params=(0.0, 0.1),
        operation="add",
        distribution="gaussian",
    )
    check_gaussian(data.joint_damping[:, 1], 2.0, 0.1)


def test_friction_of_every_body_by_itself(env):
    data = run(env, mdp.randomize_rigid_body_material, times=3, friction_range=(0.4, 1.2), per_body=True)
    for column in data.body_friction.T:
        check_uniform(column, 0.4, 1.2)
    check_independent(data.body_friction)


def test_wrench_of_every_body_and_axis_by_itself(env):
    data = run(env, mdp.apply_external_force_torque, times=3, force_range=(-1.0, 3.0), torque_range=(0.0, 0.5))
    for axis in range(6):
        for body in range(3):
            check_uniform(data.body_wrench_w[:, body, axis], *((-1.0, 3.0) if axis < 3 else (0.0, 0.5)))
    check_independent(data.body_wrench_w.flatten(1))


def test_joint_offsets_start_from_the_default_each_time(env):
    ranges = {"position_range": (-0.2, 0.4), "velocity_range": (-0.1, 0.1)}
    data = run(env, mdp.reset_joints_by_offset, times=5, **ranges)
    for joint, (position, velocity) in enumerate(((0.5, 0.0), (-1.0, 2.0))):
        check_uniform(data.joint_pos[:, joint] - position, -0.2, 0.4)
        check_uniform(data.joint_vel[:, joint] - velocity, -0.1, 0.1)
    check_independent(torch.cat([data.joint_pos, data.joint_vel], dim=1))


def test_joint_factors_start_from_the_default_each_time(env):
    ranges = {"position_range": (0.5, 1.5), "velocity_range": (-1.0, 1.0)}
    data = run(env, mdp.reset_joints_by_scale, times=5, **ranges)
    check_uniform(data.joint_pos[:, 0], 0.25, 0.75)
    check_uniform(data.joint_pos[:, 1], -1.5, -0.5)
    check_uniform(data.joint_vel[:, 1], -2.0, 2.0)
    assert not data.joint_vel[:, 0].any()
    check_independent(torch.cat([data.joint_pos, data.joint_vel[:, 1:]], dim=1))


@pytest.mark.parametrize("per_component", [True, False])
def test_biases_are_drawn_per_episode(per_component):
    """Their spread is over episodes, that of the noise within one."""
    cfg = NoiseWithBiasCfg(
        noise=UniformNoiseCfg(n_min=-0.1, n_max=0.1),
        bias=GaussianNoiseCfg(mean=0.5, std=0.2),
        per_component=per_component,
    )
    noise, generator = cfg.build((N, 3), "cpu"), make_generator(0)
    value = torch.zeros(N, 3)
    for _ in range(3):
        noise.reset(ALL, generator)
    bias = noise.bias.expand(N, 3)
    for column in bias.T:
        check_gaussian(column, 0.5, 0.2)
    if per_component:
        check_independent(bias)
    else:
        assert torch.equal(bias, bias[:, :1].expand(N, 3))
    first, second = noise(value, generator), noise(value, generator)
    check_uniform(first - bias, -0.1, 0.1)
    assert torch.corrcoef(torch.stack([(first - bias).flatten(), (second - bias).flatten()]))[0, 1].abs() < 0.1


def test_observation_delays_have_equal_shares(env):
    """Of whole numbers of steps, per environment; a delay acts on the observation."""
    steps = torch.zeros(N, 1)
    term = ObservationTermCfg(func=lambda env: steps, delay_min_lag=1, delay_max_lag=4)
    manager = ObservationManager({"policy": ObservationGroupCfg(terms={"clock": term})}, env)
    manager.reset(ALL)
    for _ in range(8):
        observed = manager.compute(update_history=True)["policy"]
        steps += 1.0
    lags = 7.0 - observed[:, 0]
    counts = torch.bincount(lags.long(), minlength=5)
    assert counts[0] == 0 and len(counts) == 5
    assert counts[1:].tolist() == pytest.approx([N / 4] * 4, abs=4.5 * math.sqrt(N * 0.25 * 0.75))
