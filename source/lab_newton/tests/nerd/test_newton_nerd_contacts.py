"""Learned models that look at contacts, which are found while they move the robot."""

from __future__ import annotations

from pathlib import Path

import newton
import pytest
import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.physics import CapacityError
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSetCfg, SensorCfg
from lab_newton import MuJoCoSolverCfg, NeRDSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd import RobotLayout, load_model, save_model
from lab_newton.nerd.newton_solver import SolverNeRD

ASSETS = Path(__file__).parents[1] / "newton_assets"
DT = 0.005
SEARCH = ContactSearch(0.05, 16)
STANDING = 0.23
"""Height of the root when straight legs touch the ground."""


def make(device: torch.device, solver=None, num_envs: int = 2, height: float = STANDING, **sensors: SensorCfg):
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=20.0, damping=1.0, effort_limit=10.0)
    walker = ArticulationCfg(
        asset=str(ASSETS / "walker.xml"), init_state=InitialStateCfg(pos=(0.0, 0.0, height)), actuators={"legs": legs}
    )
    scene = SceneCfg(entities={"robot": walker}, sensors=sensors)
    solver = solver or MuJoCoSolverCfg(njmax=100, nconmax=24)
    return NewtonBackend(NewtonCfg(dt=DT, solver=solver), scene, num_envs, device)


@pytest.fixture
def make_file(tmp_path, make_model, device):
    """Writes a model that nobody trained: ``make(network, search)``."""
    teacher = make(device)

    def write(network: str = "MLP", search: ContactSearch | None = SEARCH, channels: int = 13) -> str:
        layout = RobotLayout.from_model(teacher._model, DT, teacher.entities["robot"].joint_names)
        small = {"hidden": [16]} if network == "MLP" else {"context": 4, "size": 16, "depth": 1, "heads": 2}
        model = make_model(layout, network, search=search, contact_channels=channels, **small)
        path = tmp_path / f"{network}.nerd"
        save_model(path, model, teacher.fingerprint())
        return str(path)

    return write


def run(backend: NewtonBackend, steps: int = 4) -> torch.Tensor:
    for _ in range(steps):
        backend.step(1)
    return wp.to_torch(backend._state.joint_q).view(backend.num_envs, -1).clone()


def test_a_file_says_which_contacts_its_model_sees(make_file):
    assert load_model(make_file())[0].search == SEARCH


@pytest.mark.parametrize("network", ["MLP", "VectorNeRD", "ParallelNeRD"])
def test_contacts_change_what_is_predicted_only_where_there_are_any(make_file, network, device):
    """Two heights: high up the ground does not matter, and near it the same robot is predicted to move otherwise."""
    moved = {}
    for height in (STANDING, STANDING + 3.0, STANDING + 4.0):
        backend = make(device, NeRDSolverCfg(model=make_file(network)), height=height)
        moved[height] = run(backend) - torch.tensor([0.0, 0.0, height] + [0.0] * 8, device=device)
    low, high, higher = moved.values()
    assert torch.allclose(high, higher, atol=2e-6)
    assert (low - high).abs().max() > 1e-4


def test_worlds_are_predicted_alike_in_any_number(make_file, device):
    file = make_file("VectorNeRD")
    few, many = (run(make(device, NeRDSolverCfg(model=file), num_envs)) for num_envs in (1, 5))
    assert torch.allclose(many, few.expand_as(many), atol=1e-6)


def test_newtons_interface_predicts_the_same(make_file, device):
    """Alone the solver finds contacts itself."""
    backend = make(device, NeRDSolverCfg(model=make_file()))
    model, state = backend._model, backend._model.state()
    newton.eval_fk(model, model.joint_q, model.joint_qd, state)
    solver, control = SolverNeRD(model, make_file()), model.control()
    for step in range(3):
        backend.step(1)
        wp.copy(control.joint_f, backend._control.joint_f)
        solver.step(state, state, control, None, DT)
        assert torch.equal(wp.to_torch(state.joint_q), wp.to_torch(backend._state.joint_q)), step


def test_a_sensor_shows_what_the_model_sees(make_file, device):
    cfg = NeRDSolverCfg(model=make_file())
    backend = make(device, cfg, contacts=ContactSetCfg(distance=0.05, capacity=16))
    backend.step(1)
    assert torch.equal(backend.sensors["contacts"].tokens, backend.solver.inner.contact_set.torch_tokens)
    with pytest.raises(ConfigError, match=r"'contacts'\].capacity is 8, capacity of the solver is 16"):
        make(device, cfg, contacts=ContactSetCfg(distance=0.05, capacity=8))


def test_a_contact_without_a_place_is_an_error(make_file, device):
    backend = make(device, NeRDSolverCfg(model=make_file(search=ContactSearch(0.05, 1))))
    backend.step(1)
    with pytest.raises(CapacityError, match="contact set"):
        backend.health()


@pytest.mark.parametrize(("search", "channels"), [(None, 13), (ContactSearch(0.05, 16), 7)])
def test_a_model_that_sees_something_else_is_refused(make_file, search, channels):
    with pytest.raises(ConfigError, match="a contact set has 13"):
        make(torch.device("cpu"), NeRDSolverCfg(model=make_file("MLP", search, channels)))
