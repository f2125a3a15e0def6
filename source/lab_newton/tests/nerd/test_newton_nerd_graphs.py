"""Learned models in graphs: what is replayed is what eager steps do, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import warp as wp

from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NeRDSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd import NeRDModel, RobotLayout, save_model

WALKER = Path(__file__).parents[1] / "newton_assets" / "walker.xml"
SEARCH = ContactSearch(0.05, 16)


@pytest.fixture
def make_learned(request, tmp_path, device, make_rover, rover_layout, make_model):
    """Builds worlds that a network nobody trained moves: ``make(network)``."""

    def rover(network: str) -> NewtonBackend:
        layout = replace(rover_layout, continuous=(False, False, False))
        model = make_model(layout, network, context=4, size=16, depth=1, heads=2)
        save_model(tmp_path / "rover.nerd", model, make_rover(1).fingerprint())
        return make_rover(4, solver=NeRDSolverCfg(model=str(tmp_path / "rover.nerd")))

    def walker(network: str) -> NewtonBackend:
        teacher = walkers(MuJoCoSolverCfg(njmax=100, nconmax=24), 1)
        torch.manual_seed(0)
        robot = teacher.robot_properties("robot")
        model = NeRDModel(RobotLayout.from_model(teacher.model, teacher.dt), network, {}, SEARCH, robot)
        save_model(tmp_path / "walker.nerd", model, teacher.fingerprint())
        return walkers(NeRDSolverCfg(model=str(tmp_path / "walker.nerd")), 4)

    def walkers(solver, num_envs: int) -> NewtonBackend:
        legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=20.0, damping=1.0, effort_limit=10.0)
        start = InitialStateCfg(pos=(0.0, 0.0, 0.25))
        cfg = ArticulationCfg(asset=str(WALKER), init_state=start, actuators={"legs": legs})
        scene = SceneCfg(entities={"robot": cfg})
        return NewtonBackend(NewtonCfg(dt=0.005, solver=solver), scene, num_envs, device)

    return lambda network: walker(network) if network == "ContactImpulses" else rover(network)


def run(backend: NewtonBackend) -> torch.Tensor:
    """Returns velocities (T, N, V) of steps with random targets, between which worlds are reset and memory is used."""
    generator, data = torch.Generator().manual_seed(0), backend.entities["robot"]
    kept, rows = [], []
    for step in range(24):
        data.joint_pos_target.copy_(0.3 * torch.randn(data.joint_pos_target.shape, generator=generator))
        if step % 5 == 3:
            mask = torch.rand(backend.num_envs, generator=generator) < 0.5
            mask = mask.to(backend.non_finite.device)
            backend.reset(mask)
            backend.write_default_state(mask)
            backend.mark_written(mask)
            backend.forward()
        kept.append(torch.full((1000 * (step + 1),), float("nan"), device=backend.non_finite.device))
        if step % 3 == 0:
            kept.clear()
        backend.step(2)
        rows.append(wp.to_torch(backend._state.joint_qd).view(backend.num_envs, -1).clone())
    return torch.stack(rows)


@pytest.mark.parametrize("network", ["VectorNeRD", "ParallelNeRD", "ContactImpulses"])
def test_replayed_steps_are_eager_ones_with_resets_and_other_allocations_in_between(make_learned, network, monkeypatch):
    captured = make_learned(network)
    found = run(captured)
    assert captured.description.endswith("captured")
    captured.close()
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = make_learned(network)
    expected = run(eager)
    assert eager.description.endswith("LAB_CAPTURE=0") and expected.isfinite().all()
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-5)
    assert expected.std(dim=0).max() > 1e-2, "nothing moves"
    eager.close()
