"""Actuators in the physics: motor limits, delays, effort tables and drive networks, world by world."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.scene import (
    ActuatorCfg,
    ArticulationData,
    DCMotorActuatorCfg,
    IdealPDActuatorCfg,
    LSTMActuatorCfg,
    RemotizedPDActuatorCfg,
    UnknownNameError,
    clip_to_motor_curve,
)
from lab_core.testing import check_masked_reset
from lab_newton import MuJoCoSolverCfg
from lab_newton.backend import NewtonBackend

# Drive networks are published in this format.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

MIDDLE = torch.tensor([False, True, False])
EVERYWHERE = torch.tensor([True, True, True])
PD = {"stiffness": 20.0, "damping": 1.0, "effort_limit": 5.0}
Make = Callable[..., NewtonBackend]


@pytest.fixture(scope="module")
def make(make_rover, rover_cfg) -> Make:
    """Builds three flying rovers with the given actuator groups."""

    def make(num_envs: int = 3, **actuators: ActuatorCfg) -> NewtonBackend:
        entity = replace(rover_cfg, actuators=actuators)
        return make_rover(num_envs=num_envs, entity=entity, solver=MuJoCoSolverCfg(contacts=False))

    return make


def shared(backend: NewtonBackend) -> Iterator[NewtonBackend]:
    fresh = backend.state_dict()
    yield backend
    backend.load_state_dict(fresh)


def robot(backend: NewtonBackend) -> ArticulationData:
    return backend.articulations["robot"]


def memory(backend: NewtonBackend, name: str) -> torch.Tensor:
    return backend.state_dict()[f"actuators.robot.{name}"]


def joint(backend: NewtonBackend, name: str) -> int:
    return robot(backend).joint_names.index(name)


def joint_f(backend: NewtonBackend) -> torch.Tensor:
    """What Newton's solver read, (N, J): behind the six entries of the root."""
    return torch.from_numpy(backend._control.joint_f.numpy()).view(backend.num_envs, -1)[:, 6:]


# Motors ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def motors(make) -> NewtonBackend:
    motor = DCMotorActuatorCfg(joint_names=("shoulder",), effort_limit=4.0, saturation_effort=6.0, velocity_limit=8.0)
    return make(motor=motor, servo=IdealPDActuatorCfg(joint_names=("wrist",), **PD))


@pytest.mark.parametrize("speed", [-30.0, -9.0, -2.0, 0.0, 3.0, 8.0, 13.4, 25.0])
@pytest.mark.parametrize("request_", [-50.0, -1.0, 2.0, 50.0])
def test_the_motor_follows_its_torque_speed_line(motors, speed, request_):
    """As the torch law of lab_core, in every quadrant; the limits are of each world."""
    data, shoulder = robot(motors), joint(motors, "shoulder")
    data.joint_effort_limits[:, shoulder] = torch.tensor([4.0, 2.0, 4.0])
    data.joint_saturation_efforts[:, shoulder] = torch.tensor([6.0, 6.0, 3.0])
    data.joint_vel[:, shoulder] = speed
    data.joint_effort_target[:, shoulder] = request_
    motors.mark_written(EVERYWHERE)
    motors.forward()
    motors.step(1)
    limits = (data.joint_effort_limits, data.joint_saturation_efforts, data.joint_velocity_limits)
    expected = clip_to_motor_curve(torch.tensor(request_), torch.tensor(speed), *(x[:, shoulder] for x in limits))
    torch.testing.assert_close(data.applied_effort[:, shoulder], expected, atol=1e-5, rtol=1e-5)


def test_the_recorded_effort_is_what_the_solver_received(motors):
    data = robot(motors)
    data.joint_effort_target.copy_(torch.linspace(-9.0, 9.0, 9).view(3, 3))
    motors.step(3)
    assert torch.equal(data.applied_effort, joint_f(motors))
    assert data.applied_effort.abs().max() > 1.0
    assert not data.applied_effort[:, joint(motors, "tail")].any(), "the tail has no actuator"


def test_feed_forward_effort_is_limited_too(motors):
    data, wrist = robot(motors), joint(motors, "wrist")
    data.joint_effort_target[:, wrist] = torch.tensor([50.0, -50.0, 0.0])
    motors.step(1)
    assert data.applied_effort[:2, wrist].tolist() == [5.0, -5.0]


# Delays ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def late(make) -> NewtonBackend:
    """The shoulder's targets come 3 physics steps late; the wrist's at once."""
    late = IdealPDActuatorCfg(joint_names=("shoulder",), min_delay=3, max_delay=3, **PD | {"effort_limit": 100.0})
    return make(late=late, prompt=IdealPDActuatorCfg(joint_names=("wrist",), **PD))


@pytest.fixture(params=["at once", "after other targets"])
def settled(late, request) -> Iterator[NewtonBackend]:
    for backend in shared(late):
        backend.reset(EVERYWHERE)
        if request.param == "after other targets":
            robot(backend).joint_effort_target.fill_(0.1)
            backend.step(4)
        yield backend


def test_targets_act_after_their_lag(settled):
    """With 4 physics steps per control step, targets with a lag of 3 first act in the last of them."""
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


@pytest.fixture
def random_lags(make) -> NewtonBackend:
    a = IdealPDActuatorCfg(joint_names=("shoulder",), min_delay=1, max_delay=6, **PD)
    b = IdealPDActuatorCfg(joint_names=("wrist", "tail"), min_delay=0, max_delay=2, **PD)
    return make(num_envs=300, a=a, b=b)


def test_lags_are_drawn_per_world_and_group(random_lags):
    lags = memory(random_lags, "lag")
    for group, low, high in ((0, 1, 6), (1, 0, 2)):
        counts = torch.bincount(lags[:, group], minlength=high + 1)
        share = 300 / (high - low + 1)
        assert not counts[:low].any()
        assert len(counts) == high + 1
        assert ((counts[low:] - share).abs() < 4.5 * share**0.5).all()
    assert torch.corrcoef(lags.T.float())[0, 1].abs() < 0.2


def test_a_reset_draws_the_lags_of_its_worlds_alone(random_lags):
    mask = torch.arange(300) % 2 == 0
    before = memory(random_lags, "lag")
    random_lags.reset(mask)
    after = memory(random_lags, "lag")
    assert torch.equal(before[~mask], after[~mask])
    assert (before[mask] != after[mask]).any(dim=1).float().mean() > 0.7


def test_lags_repeat_with_the_seed(random_lags):
    def lags(seed: int) -> torch.Tensor:
        random_lags.seed(seed)
        random_lags.reset(torch.ones(300, dtype=torch.bool))
        return memory(random_lags, "lag")

    first, other, again = lags(1), lags(2), lags(1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


# Tables ---------------------------------------------------------------------------------------------------------------


def test_effort_limits_follow_the_position(make):
    knee = ((-1.0, 1.0), (0.0, 4.0), (0.5, 2.0))
    other = ((-0.5, 9.0), (0.5, 3.0))
    backend = make(
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
        backend.mark_written(EVERYWHERE)
        backend.step(1)
        for name, limit in (
            ("shoulder", np.interp(position, *zip(*knee, strict=True))),
            ("tail", np.minimum(np.interp(position, *zip(*other, strict=True)), 5.0)),
            ("wrist", np.full(3, 7.0)),
        ):
            assert data.applied_effort[:, joint(backend, name)].numpy() == pytest.approx(-limit, abs=1e-5), name


# Networks -------------------------------------------------------------------------------------------------------------


class Net(torch.nn.Module):
    """The form of published drive networks."""

    def __init__(self, hidden: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.register_buffer("in_scale", torch.tensor([[[1.0, 0.3]]]))
        self.register_buffer("out_scale", torch.tensor([5.0]))
        self.lstm = torch.nn.LSTM(2, hidden, layers, batch_first=True)
        self.linear = torch.nn.Linear(hidden, 1)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        y, state = self.lstm(self.in_scale * x, state)
        return self.out_scale * self.linear(y).squeeze(), state


@pytest.fixture(scope="session")
def network_file(tmp_path_factory) -> str:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("drive") / "drive.pt"
    torch.jit.save(torch.jit.script(Net()), str(path))
    return str(path)


def drive(network_file: str, **changes) -> LSTMActuatorCfg:
    values = {"joint_names": ("tail", "shoulder"), "effort_limit": 80.0, "saturation_effort": 120.0} | changes
    return LSTMActuatorCfg(network_file=network_file, velocity_limit=75.0, **values)


def check_against_torch(backend: NewtonBackend, network_file: str, hidden: int, steps: int, tolerance: float) -> None:
    """The same efforts as the file's own network over a random sequence with resets."""
    data, joints = robot(backend), [joint(backend, "shoulder"), joint(backend, "tail")]
    net = torch.jit.load(network_file)
    random = torch.Generator().manual_seed(0)
    state = (torch.zeros(2, 6, hidden), torch.zeros(2, 6, hidden))
    largest = 0.0
    for i in range(steps):
        data.joint_pos_target[:, joints] = torch.empty(3, 2).uniform_(-1.0, 1.0, generator=random)
        error = data.joint_pos_target[:, joints] - data.joint_pos[:, joints]
        x = torch.stack([error, data.joint_vel[:, joints]], dim=-1).reshape(6, 1, 2)
        with torch.inference_mode():
            effort, state = net(x, state)
        backend.step(1)
        torch.testing.assert_close(
            data.applied_effort[:, joints], effort.reshape(3, 2).clone(), atol=tolerance, rtol=tolerance
        )
        largest = max(largest, effort.abs().max().item())
        if i % 37 == 36:
            mask = torch.rand(3, generator=random) < 0.5
            backend.reset(mask)
            keep = (~mask).repeat_interleave(2)[None, :, None]
            state = (state[0] * keep, state[1] * keep)
    assert largest > 1.0, "the network was hardly excited"


@pytest.fixture(scope="module")
def driven(make, network_file) -> NewtonBackend:
    return make(drive=drive(network_file), servo=IdealPDActuatorCfg(joint_names=("wrist",), **PD))


@pytest.fixture
def network(driven) -> Iterator[NewtonBackend]:
    yield from shared(driven)


def test_the_network_equals_its_torchscript_file(network, network_file):
    check_against_torch(network, network_file, hidden=4, steps=200, tolerance=1e-4)


def test_the_anydrive_network_equals_its_torchscript_file(make):
    folder = os.environ.get("LAB_EXTERNAL_DATA")
    if not folder:
        pytest.skip("LAB_EXTERNAL_DATA is not set: the published network is not part of the project")
    path = str(Path(folder) / "actuators" / "anydrive_v3_lstm.pt")
    wide = drive(path, effort_limit=1e4, saturation_effort=1e6)
    backend = make(drive=wide, servo=IdealPDActuatorCfg(joint_names=("wrist",), **PD))
    check_against_torch(backend, path, hidden=8, steps=200, tolerance=1e-4)


def test_the_network_sees_the_velocity_not_its_error(network):
    data, shoulder = robot(network), joint(network, "shoulder")
    data.joint_vel_target[:, shoulder] = torch.tensor([0.0, 5.0, -5.0])
    network.step(2)
    assert data.applied_effort[0, shoulder] == data.applied_effort[1, shoulder] == data.applied_effort[2, shoulder] != 0


def test_networks_take_feed_forward_effort_and_other_joints_keep_their_law(network):
    data, shoulder, wrist = robot(network), joint(network, "shoulder"), joint(network, "wrist")
    data.joint_effort_target[1, shoulder] = 3.0
    data.joint_pos_target[2, wrist] += 0.1
    network.step(1)
    effort = data.applied_effort
    assert (effort[1, shoulder] - effort[0, shoulder]).item() == pytest.approx(3.0, abs=1e-5)
    assert (effort[2, wrist] - effort[0, wrist]).item() == pytest.approx(2.0, abs=1e-5)


def test_networks_are_clipped_to_the_motor(network):
    data, shoulder = robot(network), joint(network, "shoulder")
    data.joint_effort_limits[:, shoulder] = 0.1
    data.joint_pos_target[:, shoulder] = 3.0
    network.step(5)
    assert data.applied_effort[:, shoulder].abs().tolist() == pytest.approx([0.1] * 3)


def test_a_reset_clears_the_memory_of_its_worlds_alone(network):
    network.step(5)
    before = {name: memory(network, f"network_0.{name}") for name in ("hidden", "cell")}
    with torch.inference_mode():
        network.reset(MIDDLE)
    for name, old in before.items():
        now = memory(network, f"network_0.{name}")
        assert not now[1].any()
        assert torch.equal(now[[0, 2]], old[[0, 2]]), name
        assert old.any()


def test_a_world_that_goes_non_finite_forgets(network):
    network.step(5)
    robot(network).joint_pos_target[1, 0] = torch.nan
    network.step(1)
    assert network.non_finite.tolist() == [False, True, False]
    assert not memory(network, "network_0.hidden")[1].any()
    assert memory(network, "network_0.hidden")[[0, 2]].all()


@pytest.mark.parametrize("content", ["no network", "other network"])
def test_a_file_of_another_kind_is_refused(make, tmp_path, content):
    path = tmp_path / "drive.pt"
    if content == "no network":
        path.write_text(content)
    else:
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 1)), str(path))
    with pytest.raises(ConfigError, match=r"Actuator of 'shoulder': .*drive.pt' is no TorchScript file of an LSTM"):
        make(drive=drive(str(path)))
    with pytest.raises(ConfigError, match=r"there is no file .*missing.pt"):
        make(drive=drive(str(tmp_path / "missing.pt")))


# All of them ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def make_everything(make, network_file) -> Callable[[], NewtonBackend]:
    """A network whose targets are late, a delayed PD law with a table, and a motor."""
    return lambda: make(
        drive=drive(network_file, joint_names=("shoulder",), min_delay=0, max_delay=4),
        table=RemotizedPDActuatorCfg(
            joint_names=("wrist",), effort_limit_by_position=((0.0, 1.0), (1.0, 3.0)), max_delay=3, **PD
        ),
        motor=DCMotorActuatorCfg(joint_names=("tail",), saturation_effort=3.0, velocity_limit=9.0, **PD),
    )


def run(backend: NewtonBackend, steps: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    for i in range(steps):
        robot(backend).joint_pos_target.uniform_(-0.5, 0.5, generator=random)
        backend.step(3)
        if i % 4 == 3:
            backend.reset(torch.rand(3, generator=random) < 0.5)


def test_masked_resets_touch_their_worlds_only(make_everything):
    backend = make_everything()
    cleared = check_masked_reset(backend, backend.reset, backend.num_envs)
    memories = {f"actuators.robot.{name}" for name in ("lag", "targets", "network_0.hidden", "network_0.cell")}
    assert memories | {"random_state"} <= cleared


def test_a_saved_state_continues_bit_for_bit(make_everything):
    first, second = make_everything(), make_everything()
    run(first, 10, seed=1)
    second.load_state_dict(first.state_dict())
    for backend in (first, second):
        run(backend, 10, seed=2)
    for (name, a), b in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_eager_and_captured_runs_are_bitwise_equal(make_everything, monkeypatch):
    captured = make_everything()
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = make_everything()
    for backend in (captured, eager):
        backend.seed(7)
        backend.reset(EVERYWHERE)
        run(backend, 12, seed=1)
    assert captured.capture_context.report()[0].recorded
    for (name, a), b in zip(captured.state_dict().items(), eager.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_buffers_are_shared_with_the_actuators(make_everything):
    """Nothing is copied: Newton reads the very memory that users write."""
    backend = make_everything()
    drive_ = backend._actuators["robot"]._actuator.drive
    assert wp.to_torch(drive_.kp).data_ptr() == robot(backend).joint_stiffness.data_ptr()


def test_a_group_that_matches_no_joint_is_an_error(make):
    with pytest.raises(UnknownNameError, match="No joint of 'robot' matches 'wheel'. There are: shoulder, wrist, tail"):
        make(wheels=IdealPDActuatorCfg(joint_names=("wheel",)))
    with pytest.raises(UnknownNameError, match="'wrist' of 'robot' is in two actuator groups"):
        make(a=IdealPDActuatorCfg(joint_names=("wrist",)), b=IdealPDActuatorCfg(joint_names=("w.*",)))
