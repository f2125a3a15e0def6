"""Drive networks in the physics: recurrent networks from TorchScript files, alone and beside other actuators."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.scene import (
    ArticulationData,
    DCMotorActuatorCfg,
    IdealPDActuatorCfg,
    LSTMActuatorCfg,
    RemotizedPDActuatorCfg,
)
from lab_core.testing import check_masked_reset
from lab_newton.backend import NewtonBackend

# Drive networks are published in this format.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")

PD = {"stiffness": 20.0, "damping": 1.0, "effort_limit": 5.0}


def robot(backend: NewtonBackend) -> ArticulationData:
    return backend.entities["robot"]


def memory(backend: NewtonBackend, name: str) -> torch.Tensor:
    return backend.state_dict()[f"actuators.robot.{name}"]


def joint(backend: NewtonBackend, name: str) -> int:
    return robot(backend).joint_names.index(name)


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
        target = torch.empty(3, 2).uniform_(-1.0, 1.0, generator=random)
        data.joint_pos_target[:, joints] = target.to(backend.device)
        error, velocity = target - data.joint_pos[:, joints].cpu(), data.joint_vel[:, joints].cpu()
        x = torch.stack([error, velocity], dim=-1).reshape(6, 1, 2)
        with torch.inference_mode():
            effort, state = net(x, state)
        backend.step(1)
        found, expected = data.applied_effort[:, joints].cpu(), effort.reshape(3, 2).clone()
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
        largest = max(largest, effort.abs().max().item())
        if i % 37 == 36:
            mask = torch.rand(3, generator=random) < 0.5
            backend.reset(mask.to(backend.device))
            keep = (~mask).repeat_interleave(2)[None, :, None]
            state = (state[0] * keep, state[1] * keep)
    assert largest > 1.0, "the network was hardly excited"


@pytest.fixture(scope="module")
def driven(make_actuated, network_file) -> NewtonBackend:
    return make_actuated(drive=drive(network_file), servo=IdealPDActuatorCfg(joint_names=("wrist",), **PD))


@pytest.fixture
def network(driven) -> Iterator[NewtonBackend]:
    fresh = driven.state_dict()
    yield driven
    driven.load_state_dict(fresh)


def test_the_network_equals_its_torchscript_file(network, network_file):
    check_against_torch(network, network_file, hidden=4, steps=200, tolerance=1e-4)


def test_the_anydrive_network_equals_its_torchscript_file(make_actuated):
    folder = os.environ.get("LAB_EXTERNAL_DATA")
    if not folder:
        pytest.skip("LAB_EXTERNAL_DATA is not set: the published network is not part of the project")
    path = str(Path(folder) / "actuators" / "anydrive_v3_lstm.pt")
    wide = drive(path, effort_limit=1e4, saturation_effort=1e6)
    backend = make_actuated(drive=wide, servo=IdealPDActuatorCfg(joint_names=("wrist",), **PD))
    check_against_torch(backend, path, hidden=8, steps=200, tolerance=1e-4)


def test_the_network_sees_the_velocity_not_its_error(network):
    data, shoulder = robot(network), joint(network, "shoulder")
    data.joint_vel_target[:, shoulder] = torch.tensor([0.0, 5.0, -5.0])
    network.step(2)
    effort = data.applied_effort[:, shoulder].tolist()
    assert effort == pytest.approx(effort[:1] * 3, rel=1e-4) and abs(effort[0]) > 1e-2


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
    before = {name: memory(network, f"drive_0.{name}") for name in ("hidden", "cell")}
    with torch.inference_mode():
        network.reset(torch.tensor([False, True, False], device=network.device))
    for name, old in before.items():
        now = memory(network, f"drive_0.{name}")
        assert not now[1].any()
        assert torch.equal(now[[0, 2]], old[[0, 2]]), name
        assert old.any()


def test_a_world_that_goes_non_finite_forgets(network):
    network.step(5)
    robot(network).joint_pos_target[1, 0] = torch.nan
    network.step(1)
    assert network.non_finite.tolist() == [False, True, False]
    assert not memory(network, "drive_0.hidden")[1].any()
    assert memory(network, "drive_0.hidden")[[0, 2]].all()


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize("content", ["no network", "other network"])
def test_a_file_of_another_kind_is_refused(make_actuated, tmp_path, content):
    path = tmp_path / "drive.pt"
    if content == "no network":
        path.write_text(content)
    else:
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 1)), str(path))
    with pytest.raises(ConfigError, match=r"Actuator of 'shoulder': .*drive.pt' is no TorchScript file of an LSTM"):
        make_actuated(drive=drive(str(path)))
    with pytest.raises(ConfigError, match=r"there is no file .*missing.pt"):
        make_actuated(drive=drive(str(tmp_path / "missing.pt")))


# With other actuators -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def make_everything(make_actuated, network_file) -> Callable[[], NewtonBackend]:
    """A network whose targets are late, a delayed PD law with a table, and a motor."""
    return lambda: make_actuated(
        drive=drive(network_file, joint_names=("shoulder",), min_delay=0, max_delay=4),
        table=RemotizedPDActuatorCfg(
            joint_names=("wrist",), effort_limit_by_position=((0.0, 1.0), (1.0, 3.0)), max_delay=3, **PD
        ),
        motor=DCMotorActuatorCfg(joint_names=("tail",), saturation_effort=3.0, velocity_limit=9.0, **PD),
    )


@pytest.fixture(scope="module")
def built(make_everything) -> tuple[NewtonBackend, dict]:
    backend = make_everything()
    return backend, backend.state_dict()


@pytest.fixture
def everything(built) -> NewtonBackend:
    backend, fresh = built
    backend.load_state_dict(fresh)
    return backend


def run(backend: NewtonBackend, steps: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    for i in range(steps):
        robot(backend).joint_pos_target.copy_(torch.empty(3, 3).uniform_(-0.5, 0.5, generator=random))
        backend.step(3)
        if i % 4 == 3:
            backend.reset((torch.rand(3, generator=random) < 0.5).to(backend.device))


def test_masked_resets_touch_their_worlds_only(everything):
    cleared = check_masked_reset(everything, everything.reset, everything.num_envs)
    memories = {f"robot.{name}" for name in ("lag", "targets", "drive_0.hidden", "drive_0.cell")}
    assert memories <= everything.actuator_memory().keys()
    assert {f"actuators.{name}" for name in memories} | {"random_state"} <= cleared


def test_a_saved_state_continues(everything, make_everything, assert_same):
    other = make_everything()
    run(everything, 10, seed=1)
    other.load_state_dict(everything.state_dict())
    for backend in (everything, other):
        run(backend, 10, seed=2)
    assert_same(other.state_dict(), everything.state_dict())


def test_eager_and_captured_runs_agree(everything, make_everything, assert_same, monkeypatch):
    monkeypatch.setenv("LAB_CAPTURE", "0")
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")  # eager steps raise where the host would wait for the device
    eager = make_everything()
    for backend in (everything, eager):
        backend.seed(7)
        backend.reset(torch.ones_like(backend.written))
        run(backend, 12, seed=1)
    assert everything.capture_context.report()[0].captured
    assert_same(everything.state_dict(), eager.state_dict())
