"""The ANYdrive: which model a robot gets, and what it says when the network is not there."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.scene import DCMotorActuatorCfg, LSTMActuatorCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.robot_files import asset_path
from lab_tasks.robots.anymal_c import anymal_c_cfg
from lab_tasks.robots.anymal_c.drives import DATA_VARIABLE, NETWORK_NAME, NETWORK_VARIABLE, anydrive_cfg

EXTERNAL_DATA = os.environ.get(DATA_VARIABLE)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch) -> None:
    for name in (NETWORK_VARIABLE, DATA_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path) -> Path:
    path = tmp_path / NETWORK_NAME
    path.parent.mkdir()
    path.touch()
    return tmp_path


def test_without_the_network_the_robot_says_so_and_gets_dc_motors():
    with pytest.warns(UserWarning, match=f"ANYmal moves with DC motors.*{NETWORK_VARIABLE}.*{NETWORK_NAME}") as caught:
        (motor,) = anymal_c_cfg().actuators.values()
    assert len(caught) == 1
    assert motor == DCMotorActuatorCfg(
        joint_names=(".*",),
        stiffness=40.0,
        damping=5.0,
        effort_limit=80.0,
        saturation_effort=120.0,
        velocity_limit=7.5,
    )


def test_dc_motors_by_choice_need_no_words(folder, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (motor,) = anymal_c_cfg(drive="dc_motor").actuators.values()
    assert isinstance(motor, DCMotorActuatorCfg)


@pytest.mark.parametrize("variable", [NETWORK_VARIABLE, DATA_VARIABLE])
def test_the_network_is_found_by_either_variable(folder, monkeypatch, variable):
    file = folder / NETWORK_NAME
    monkeypatch.setenv(variable, str(file if variable == NETWORK_VARIABLE else folder))
    (drive,) = anymal_c_cfg(drive="auto").actuators.values()
    assert isinstance(drive, LSTMActuatorCfg)
    assert asset_path(drive.network_file) == file
    assert str(folder) not in drive.network_file  # the configuration of a run means the same elsewhere
    assert (drive.effort_limit, drive.saturation_effort, drive.velocity_limit) == (80.0, 120.0, 7.5)


def test_a_network_that_is_asked_for_must_be_there(monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match=f"no network of the ANYdrive. .*{NETWORK_VARIABLE}"):
        anydrive_cfg((".*",), "network")
    monkeypatch.setenv(NETWORK_VARIABLE, str(tmp_path / "drive.pt"))
    with pytest.raises(ConfigError, match=f"{NETWORK_VARIABLE} names '.*drive.pt': there is no such file"):
        anydrive_cfg((".*",), "auto")
    with pytest.raises(ConfigError, match="no drive 'servo'. There are: auto, network, dc_motor"):
        anydrive_cfg((".*",), "servo")  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(EXTERNAL_DATA is None, reason=f"{DATA_VARIABLE} is not set: the network is not part of the project")
def test_with_its_drives_the_robot_stands_upright(monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(EXTERNAL_DATA))
    solver = MuJoCoSolverCfg(njmax=400, nconmax=100, cone="elliptic", impratio=100.0)
    scene = SceneCfg(entities={"robot": anymal_c_cfg(drive="network")})
    backend = NewtonBackend(NewtonCfg(dt=0.005, solver=solver), scene, 1, torch.device("cpu"))
    data = backend.entities["robot"]
    backend.step(400)
    assert data.root_link_pose_w[0, 2].item() == pytest.approx(0.513, abs=0.02)
    assert data.root_com_vel_w.abs().max() < 0.1
    assert data.projected_gravity_b[0, 2] < -0.99
    backend.close()
