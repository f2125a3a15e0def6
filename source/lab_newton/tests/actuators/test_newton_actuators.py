"""Actuators in the physics: motor limits, delays and effort tables, world by world."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
import warp as wp

from lab_core.names import UnknownNameError
from lab_core.scene import (
    ArticulationData,
    DCMotorActuatorCfg,
    IdealPDActuatorCfg,
    RemotizedPDActuatorCfg,
    clip_to_motor_curve,
)
from lab_newton.backend import NewtonBackend

PD = {"stiffness": 20.0, "damping": 1.0, "effort_limit": 5.0}


def robot(backend: NewtonBackend) -> ArticulationData:
    return backend.entities["robot"]


def joint(backend: NewtonBackend, name: str) -> int:
    return robot(backend).joint_names.index(name)


def restored(backend: NewtonBackend) -> Iterator[NewtonBackend]:
    """Yields a shared backend and puts it back."""
    fresh = backend.state_dict()
    yield backend
    backend.load_state_dict(fresh)


def everywhere(backend: NewtonBackend) -> torch.Tensor:
    return torch.ones_like(backend.written)


def lags(backend: NewtonBackend) -> torch.Tensor:
    """(N, groups) [physics steps]."""
    return backend.state_dict()["actuators.robot.lag"]


# Motors ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def motors(make_actuated) -> NewtonBackend:
    motor = DCMotorActuatorCfg(joint_names=("shoulder",), effort_limit=4.0, saturation_effort=6.0, velocity_limit=8.0)
    return make_actuated(motor=motor, servo=IdealPDActuatorCfg(joint_names=("wrist",), **PD))


@pytest.mark.parametrize("speed", [-30.0, -9.0, -2.0, 0.0, 3.0, 8.0, 13.4, 25.0])
@pytest.mark.parametrize("request_", [-50.0, -1.0, 2.0, 50.0])
def test_the_motor_follows_its_torque_speed_line(motors, device, speed, request_):
    """As the torch law of lab_core, in every quadrant; the limits are of each world."""
    data, shoulder = robot(motors), joint(motors, "shoulder")
    data.joint_effort_limits[:, shoulder] = torch.tensor([4.0, 2.0, 4.0])
    data.joint_saturation_efforts[:, shoulder] = torch.tensor([6.0, 6.0, 3.0])
    data.joint_vel[:, shoulder] = speed
    data.joint_effort_target[:, shoulder] = request_
    motors.written.fill_(True)
    motors.forward()
    motors.step(1)
    limits = (data.joint_effort_limits, data.joint_saturation_efforts, data.joint_velocity_limits)
    wanted, velocity = (torch.full((3,), value, device=device) for value in (request_, speed))
    expected = clip_to_motor_curve(wanted, velocity, *(x[:, shoulder] for x in limits))
    torch.testing.assert_close(data.applied_effort[:, shoulder], expected, atol=1e-5, rtol=1e-5)


def test_the_recorded_effort_is_what_the_solver_received(motors):
    data = robot(motors)
    data.joint_effort_target.copy_(torch.linspace(-9.0, 9.0, 9).view(3, 3))
    motors.step(3)
    received = torch.from_numpy(motors._control.joint_f.numpy()).view(3, -1)[:, 6:]  # behind the six of the root
    assert torch.equal(data.applied_effort.cpu(), received)
    assert data.applied_effort.abs().max() > 1.0
    assert not data.applied_effort[:, joint(motors, "tail")].any(), "the tail has no actuator"


def test_feed_forward_effort_is_limited_too(motors):
    data, wrist = robot(motors), joint(motors, "wrist")
    data.joint_effort_target[:, wrist] = torch.tensor([50.0, -50.0, 0.0])
    motors.step(1)
    assert data.applied_effort[:2, wrist].tolist() == [5.0, -5.0]


# Delays ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def late(make_actuated) -> NewtonBackend:
    """The shoulder's targets come 3 physics steps late; the wrist's at once."""
    late = IdealPDActuatorCfg(joint_names=("shoulder",), min_delay=3, max_delay=3, **PD | {"effort_limit": 100.0})
    return make_actuated(late=late, prompt=IdealPDActuatorCfg(joint_names=("wrist",), **PD))


@pytest.fixture(params=["at once", "after other targets"])
def settled(late, request) -> Iterator[NewtonBackend]:
    for backend in restored(late):
        backend.reset(everywhere(backend))
        if request.param == "after other targets":
            robot(backend).joint_effort_target.fill_(0.1)
            backend.step(4)
        yield backend


def test_targets_act_after_their_lag(settled):
    """With 4 physics steps per environment step, targets with a lag of 3 first act in the last of them."""
    data, shoulder, wrist = robot(settled), joint(settled, "shoulder"), joint(settled, "wrist")
    data.joint_stiffness.zero_()
    data.joint_damping.zero_()
    settled.step(1)
    before = data.applied_effort.clone()
    data.joint_effort_target.fill_(2.0)
    efforts = []
    for _ in range(4):
        settled.step(1)
        efforts.append(data.applied_effort.clone())
    assert [torch.equal(effort[:, shoulder], before[:, shoulder]) for effort in efforts] == [True] * 3 + [False]
    assert efforts[3][:, shoulder].tolist() == [2.0] * 3
    assert all(effort[:, wrist].tolist() == [2.0] * 3 for effort in efforts)


def test_position_velocity_and_effort_targets_are_equally_late(settled):
    data, shoulder = robot(settled), joint(settled, "shoulder")
    gains = {"joint_stiffness": (1.0, 0.0, 0.0), "joint_damping": (0.0, 1.0, 0.0)}
    for name, values in gains.items():
        getattr(data, name)[:, shoulder] = torch.tensor(values)
    settled.step(1)
    for name in ("joint_pos_target", "joint_vel_target", "joint_effort_target"):
        getattr(data, name)[:, shoulder] += 50.0
    settled.step(3)
    early = data.applied_effort[:, shoulder].clone()
    settled.step(1)
    jump = data.applied_effort[:, shoulder] - early
    # In worlds 0 and 1 the effort target jumps as well.
    assert jump.tolist() == pytest.approx([100.0 - early[0].item(), 100.0 - early[1].item(), 50.0], abs=0.5)


def test_targets_that_come_with_a_state_hold_before_the_first_step(settled):
    """Nothing pulls to the default pose until the first action arrives. A later ``forward`` cuts no delay short."""
    data, shoulder = robot(settled), joint(settled, "shoulder")
    mask = torch.tensor([True, False, True], device=settled.device)
    settled.step(1)
    settled.reset(mask)
    data.joint_pos[mask] = data.joint_pos_target[mask] = 0.9
    data.joint_vel[mask] = data.joint_effort_target[mask] = 0.0
    settled.mark_written(mask)
    settled.forward()
    data.joint_effort_target[:, shoulder] = 50.0
    settled.step(1)
    assert data.applied_effort[mask, shoulder].abs().max() < 0.5
    settled.forward()
    settled.step(2)
    assert data.applied_effort[mask, shoulder].abs().max() < 5.0
    settled.step(1)
    assert (data.applied_effort[mask, shoulder] > 40.0).all()


@pytest.fixture(scope="module")
def many(make_actuated) -> NewtonBackend:
    a = IdealPDActuatorCfg(joint_names=("shoulder",), min_delay=1, max_delay=6, **PD)
    b = IdealPDActuatorCfg(joint_names=("wrist", "tail"), min_delay=0, max_delay=2, **PD)
    return make_actuated(num_envs=300, a=a, b=b)


@pytest.fixture
def random_lags(many) -> Iterator[NewtonBackend]:
    yield from restored(many)


def test_lags_are_drawn_per_world_and_group(random_lags):
    drawn = lags(random_lags)
    for group, low, high in ((0, 1, 6), (1, 0, 2)):
        counts = torch.bincount(drawn[:, group], minlength=high + 1)
        share = 300 / (high - low + 1)
        assert not counts[:low].any()
        assert len(counts) == high + 1
        assert ((counts[low:] - share).abs() < 4.5 * share**0.5).all()
    assert torch.corrcoef(drawn.T.float())[0, 1].abs() < 0.2


def test_a_reset_draws_the_lags_of_its_worlds_alone(random_lags):
    mask = torch.arange(300) % 2 == 0
    before = lags(random_lags)
    random_lags.reset(mask.to(random_lags.device))
    after = lags(random_lags)
    assert torch.equal(before[~mask], after[~mask])
    assert (before[mask] != after[mask]).any(dim=1).float().mean() > 0.7


def test_lags_repeat_with_the_seed(random_lags):
    def drawn(seed: int) -> torch.Tensor:
        random_lags.seed(seed)
        random_lags.reset(everywhere(random_lags))
        return lags(random_lags)

    first, other, again = drawn(1), drawn(2), drawn(1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# Tables ---------------------------------------------------------------------------------------------------------------


def test_effort_limits_follow_the_position(make_actuated):
    knee = ((-1.0, 1.0), (0.0, 4.0), (0.5, 2.0))
    other = ((-0.5, 9.0), (0.5, 3.0))
    backend = make_actuated(
        knee=RemotizedPDActuatorCfg(joint_names=("shoulder",), effort_limit_by_position=knee),
        other=RemotizedPDActuatorCfg(joint_names=("tail",), effort_limit_by_position=other, effort_limit=5.0),
        plain=IdealPDActuatorCfg(joint_names=("wrist",), effort_limit=7.0),
    )
    data = robot(backend)
    for positions in ([-1.5, -1.0, -0.4], [0.0, 0.2, 0.5], [0.8, 0.1, -0.9]):
        position = torch.tensor(positions)
        data.joint_pos.copy_(position[:, None].expand(3, 3))
        data.joint_vel.zero_()
        data.joint_effort_target.fill_(-50.0)
        backend.written.fill_(True)
        backend.step(1)
        for name, limit in (
            ("shoulder", np.interp(position, *zip(*knee, strict=True))),
            ("tail", np.minimum(np.interp(position, *zip(*other, strict=True)), 5.0)),
            ("wrist", np.full(3, 7.0)),
        ):
            assert data.applied_effort[:, joint(backend, name)].tolist() == pytest.approx(-limit, abs=1e-5), name


# Groups ---------------------------------------------------------------------------------------------------------------


def test_buffers_are_shared_with_the_actuators(motors):
    """Nothing is copied: Newton reads the very memory that users write."""
    drive = motors._actuators["robot"]._actuator.drive
    assert wp.to_torch(drive.kp).data_ptr() == robot(motors).joint_stiffness.data_ptr()


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_a_group_that_matches_no_joint_is_an_error(make_actuated):
    with pytest.raises(UnknownNameError, match="No joint of 'robot' matches 'wheel'. There are: shoulder, wrist, tail"):
        make_actuated(wheels=IdealPDActuatorCfg(joint_names=("wheel",)))
    with pytest.raises(UnknownNameError, match="'wrist' of 'robot' is in two actuator groups"):
        make_actuated(a=IdealPDActuatorCfg(joint_names=("wrist",)), b=IdealPDActuatorCfg(joint_names=("w.*",)))
