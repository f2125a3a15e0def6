"""Actuator models: their configurations, and the torque-speed line of a DC motor."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lab_core.config import to_dict, update_from_dict
from lab_core.errors import ConfigError, LabError
from lab_core.names import UnknownNameError
from lab_core.scene import (
    ActuatorCfg,
    ArticulationCfg,
    DCMotorActuatorCfg,
    IdealPDActuatorCfg,
    LSTMActuatorCfg,
    RemotizedPDActuatorCfg,
    SceneCfg,
    clip_to_motor_curve,
)
from lab_core.testing.analytic import AnalyticCartpoleBackend, AnalyticCartpoleCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

CART, POLE = "slider_to_cart", "cart_to_pole"


def make(num_envs: int = 3, **actuators: ActuatorCfg) -> AnalyticCartpoleBackend:
    scene = SceneCfg(entities={"robot": ArticulationCfg(asset="analytic", actuators=actuators)})
    return AnalyticCartpoleBackend(AnalyticCartpoleCfg(dt=1 / 120), scene, num_envs, torch.device("cpu"))


def clip(request: float, velocity: float, *, limit: float, stall: float, no_load: float) -> float:
    values = (request, velocity, limit, stall, no_load)
    return float(clip_to_motor_curve(*(torch.tensor(value) for value in values)))


@pytest.mark.parametrize(
    ("velocity", "high"), [(0.0, 23.7), (15.05, 11.85), (30.1, 0.0), (60.2, -23.7), (100.0, -23.7), (-30.1, 23.7)]
)
def test_go2_hip_motor(velocity, high):
    """Stall effort and continuous effort 23.7 N m, no-load speed 30.1 rad/s."""
    motor = {"limit": 23.7, "stall": 23.7, "no_load": 30.1}
    assert clip(1e3, velocity, **motor) == pytest.approx(high, abs=1e-5)
    assert clip(-1e3, -velocity, **motor) == pytest.approx(-high, abs=1e-5)


@pytest.mark.parametrize(("velocity", "high"), [(2.5, 80.0), (5.0, 40.0), (7.5, 0.0), (12.5, -80.0), (20.0, -80.0)])
def test_anydrive_motor(velocity, high):
    """Stall effort 120 N m, continuous effort 80 N m, no-load speed 7.5 rad/s: the corner lies at 2.5 rad/s."""
    assert clip(1e3, velocity, limit=80.0, stall=120.0, no_load=7.5) == pytest.approx(high, abs=1e-4)


@given(
    request=st.floats(-500.0, 500.0, width=32),
    velocity=st.floats(-500.0, 500.0, width=32),
    limit=st.floats(0.0, 100.0, width=32),
)
def test_an_infinite_line_is_the_plain_clip(request, velocity, limit):
    assert clip(request, velocity, limit=limit, stall=math.inf, no_load=math.inf) == max(-limit, min(limit, request))


@given(
    velocity=st.floats(-100.0, 100.0),
    limit=st.floats(0.1, 100.0),
    stall=st.floats(0.1, 200.0),
    no_load=st.floats(0.1, 50.0),
)
def test_a_motor_never_exceeds_its_limit_nor_pushes_beyond_its_speed(velocity, limit, stall, no_load):
    motor = {"limit": limit, "stall": stall, "no_load": no_load}
    high, low = clip(1e6, velocity, **motor), clip(-1e6, velocity, **motor)
    assert -limit * 1.001 <= low <= high <= limit * 1.001
    if velocity >= no_load:
        assert high <= 1e-3 * stall


def test_unlimited_effort_leaves_the_line():
    assert clip(1e3, 5.0, limit=math.inf, stall=120.0, no_load=7.5) == pytest.approx(40.0)
    assert clip(1e3, 5.0, limit=math.inf, stall=math.inf, no_load=math.inf) == 1e3


def test_a_dc_motor_moves_the_analytic_cart_no_faster_than_its_no_load_speed():
    motor = DCMotorActuatorCfg(joint_names=(CART,), effort_limit=50.0, saturation_effort=50.0, velocity_limit=2.0)
    backend = make(cart=motor)
    data = backend.entities["robot"]
    data.joint_effort_target[:, 0] = 40.0
    backend.step(1)
    assert data.applied_effort[:, 0].tolist() == [40.0] * 3
    backend.step(600)
    assert data.joint_vel[:, 0].abs().max() < 3.0
    assert data.applied_effort[:, 1].tolist() == [0.0] * 3, "the pole has no actuator"


def test_motor_limits_reach_their_joints():
    backend = make(
        cart=DCMotorActuatorCfg(
            joint_names=(CART,), effort_limit={CART: 3.0}, saturation_effort=4.0, velocity_limit=5.0, stiffness=6.0
        ),
        pole=IdealPDActuatorCfg(joint_names=(POLE,), damping=7.0),
    )
    data = backend.entities["robot"]
    for buffer, row in (
        (data.joint_effort_limits, [3.0, math.inf]),
        (data.joint_saturation_efforts, [4.0, math.inf]),
        (data.joint_velocity_limits, [5.0, math.inf]),
        (data.joint_stiffness, [6.0, 0.0]),
        (data.joint_damping, [0.0, 7.0]),
    ):
        assert buffer.tolist() == [row] * 3


def test_names_must_match_one_group():
    with pytest.raises(UnknownNameError, match="No joint of 'robot' matches 'wheel'. There are: slider_to_cart"):
        make(cart=IdealPDActuatorCfg(joint_names=("wheel",)))
    with pytest.raises(UnknownNameError, match="'cart_to_pole' of 'robot' is in two actuator groups: 'all' and 'pole'"):
        make(all=IdealPDActuatorCfg(joint_names=(".*",)), pole=IdealPDActuatorCfg(joint_names=(POLE,)))
    with pytest.raises(UnknownNameError, match="matches 'wheel'"):
        make(cart=IdealPDActuatorCfg(joint_names=(CART,), effort_limit={"wheel": 1.0}))


MOTOR = {"joint_names": (CART,), "saturation_effort": 1.0, "velocity_limit": 1.0}


@pytest.mark.parametrize(
    ("actuator", "message"),
    [
        (IdealPDActuatorCfg(joint_names=(CART,), min_delay=3, max_delay=2), "0 <= min_delay <= max_delay, got 3 and 2"),
        (IdealPDActuatorCfg(joint_names=(CART,), stiffness=-1.0), "stiffness must be at least 0, got -1.0"),
        (IdealPDActuatorCfg(joint_names=(CART,), effort_limit={CART: math.nan}), "effort_limit must be at least 0"),
        (DCMotorActuatorCfg(**MOTOR | {"velocity_limit": 0.0}), "velocity_limit must be finite and above 0, got 0.0"),
        (DCMotorActuatorCfg(**MOTOR | {"saturation_effort": math.inf}), "saturation_effort must be finite and above 0"),
    ],
)
def test_impossible_values_name_the_group(actuator, message):
    with pytest.raises(ConfigError, match=f"Actuator group 'cart' of 'robot': .*{message}"):
        make(cart=actuator)


def test_the_analytic_backend_says_which_models_it_has():
    table = RemotizedPDActuatorCfg(joint_names=(CART,), effort_limit_by_position=((0.0, 1.0),))
    for actuator in (table, LSTMActuatorCfg(**MOTOR, network_file="drive.pt")):
        with pytest.raises(LabError, match=f"Actuator group 'cart' of 'robot' is a {type(actuator).__name__}"):
            make(cart=actuator)
    with pytest.raises(LabError, match="max_delay 2; the analytic backend has no delays"):
        make(cart=IdealPDActuatorCfg(joint_names=(CART,), max_delay=2))


def test_the_environment_seeds_the_physics(monkeypatch):
    seeds: list[int] = []
    monkeypatch.setattr(AnalyticCartpoleBackend, "seed", lambda self, seed: seeds.append(seed))
    env = analytic_cartpole_env_cfg(num_envs=2).build()
    env.reset()
    env.reset(seed=7)
    assert seeds == [42, 7]


def test_configurations_survive_being_written_down():
    def make_cfg(effort: float) -> ArticulationCfg:
        return ArticulationCfg(
            asset="analytic",
            actuators={
                "a": DCMotorActuatorCfg(**MOTOR, effort_limit={".*": effort}, max_delay=4),
                "b": RemotizedPDActuatorCfg(joint_names=(POLE,), effort_limit_by_position=((0.0, 1.0), (1.0, effort))),
                "c": LSTMActuatorCfg(**MOTOR, network_file="drive.pt"),
            },
        )

    cfg = make_cfg(effort=1.0)
    update_from_dict(cfg, to_dict(make_cfg(effort=3.0)))
    assert cfg == make_cfg(effort=3.0)
