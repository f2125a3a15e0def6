"""Learned impulses of contacts beside the equations of motion, against what MuJoCo Warp makes of the same states."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import NamedTuple

import newton
import pytest
import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.math import normalize, quat_mul
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSetCfg, split_tokens
from lab_newton import MuJoCoSolverCfg, NeRDSolverCfg, NewtonCfg, SolverCfg
from lab_newton.backend import NewtonBackend
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd import Contacts, NeRDModel, RobotLayout, load_model, save_model
from lab_newton.nerd.impulses import ImpulseStep

ASSETS = Path(__file__).parents[1] / "newton_assets"
DT = 0.005
SEARCH = ContactSearch(0.05, 16)


class Steps(NamedTuple):
    """Physics steps of many worlds at once."""

    q: torch.Tensor
    qd: torch.Tensor
    effort: torch.Tensor
    qd_next: torch.Tensor
    contacts: Contacts


class Recorded(NamedTuple):
    model: NeRDModel
    fingerprint: dict
    steps: Steps


def make_walkers(
    num_envs: int, device: str = "cpu", asset: Path = ASSETS / "walker.xml", solver: SolverCfg | None = None
) -> NewtonBackend:
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=20.0, damping=1.0, effort_limit=10.0)
    walker = ArticulationCfg(
        asset=str(asset), init_state=InitialStateCfg(pos=(0.0, 0.0, 1.0)), actuators={"legs": legs}
    )
    sensors = {"contacts": ContactSetCfg(distance=SEARCH.distance, capacity=16)}
    scene = SceneCfg(entities={"robot": walker}, sensors=sensors)
    solver = solver or MuJoCoSolverCfg(njmax=100, nconmax=24)
    return NewtonBackend(NewtonCfg(dt=DT, solver=solver), scene, num_envs, torch.device(device))


def record(height: tuple[float, float], num_envs: int = 64, num_steps: int = 1, seed: int = 0) -> Recorded:
    """Walkers that begin in random states above the ground, pushed by random efforts."""
    backend = make_walkers(num_envs)
    generator = torch.Generator().manual_seed(seed)

    def draw(width: int, scale: float) -> torch.Tensor:
        return scale * (2.0 * torch.rand(num_envs, width, generator=generator) - 1.0)

    robot = backend.entities["robot"]
    tilt = normalize(torch.cat((draw(3, 0.3), torch.ones(num_envs, 1)), dim=-1))
    robot.root_link_pose_w[:, 2] = height[0] + (height[1] - height[0]) * torch.rand(num_envs, generator=generator)
    robot.root_link_pose_w[:, 3:] = tilt
    robot.root_com_vel_w.copy_(draw(6, 1.5))
    robot.joint_pos.copy_(draw(4, 0.4))
    robot.joint_vel.copy_(draw(4, 4.0))
    backend.mark_written(torch.ones(num_envs, dtype=torch.bool))
    backend.forward()
    rows = []
    for _ in range(num_steps):
        robot.joint_pos_target.copy_(draw(4, 0.8))
        before = [wp.to_torch(x).view(num_envs, -1).clone() for x in (backend._state.joint_q, backend._state.joint_qd)]
        backend.step(1)
        effort = wp.to_torch(backend._control.joint_f).view(num_envs, -1)[:, -4:].clone()
        after = wp.to_torch(backend._state.joint_qd).view(num_envs, -1).clone()
        rows.append((*before, effort, after, backend.sensors["contacts"].tokens.clone()))
    q, qd, effort, qd_next, tokens = (torch.cat(column) for column in zip(*rows, strict=True))
    valid, owner, geometry = split_tokens(tokens[:, None])
    layout = RobotLayout.from_model(backend._model, DT)
    torch.manual_seed(0)
    options = {"rounds": 3, "hidden": 32, "memory": 4}
    model = NeRDModel(layout, "ContactImpulses", options, SEARCH, backend.robot_properties("robot"))
    model.changes.fit(model.representation.velocity_change(q, qd, qd_next))
    return Recorded(model, backend.fingerprint(), Steps(q, qd, effort, qd_next, Contacts(geometry, owner, valid)))


@pytest.fixture(scope="module")
def flying() -> Recorded:
    return record((2.0, 3.0))


@pytest.fixture(scope="module")
def landing() -> Recorded:
    return record((0.2, 0.35), num_steps=12)


def errors(model: NeRDModel, steps: Steps) -> torch.Tensor:
    """On the common scale, (R, V)."""
    representation = model.representation
    features = representation.features(steps.q, steps.qd, steps.effort)[:, None]
    truth = representation.velocity_change(steps.q, steps.qd, steps.qd_next)
    return model(features, steps.contacts)[:, 0] - model.changes(truth)


def test_robots_in_the_air_move_by_the_equations_of_motion(flying):
    """Without having learned anything."""
    assert not flying.steps.contacts.valid.any()
    off = errors(flying.model, flying.steps).detach()
    inside = (flying.steps.q[:, 7:].abs() < 0.35).all(dim=-1)  # away from the limits of the joints
    assert inside.sum() > 20
    assert off[inside, 3:].abs().max() < 1e-4
    assert off[inside, :3].abs().max() < 5e-3, "it moves the root's origin, not its centre of mass"


def test_a_state_can_be_read_back_from_its_features(flying):
    representation, steps = flying.model.representation, flying.steps
    parts = representation.unpack(representation.features(steps.q, steps.qd, steps.effort))
    assert torch.allclose(parts.joint_pos, steps.q[:, 7:], atol=1e-6)
    assert torch.equal(parts.joint_vel, steps.qd[:, 6:]) and torch.equal(parts.effort, steps.effort)
    assert torch.allclose(parts.down.norm(dim=-1), torch.ones(len(steps.q)), atol=1e-5)


def test_impulses_of_contacts_are_learned(landing):
    """Sixty updates on a few landings; what was learned holds for others."""
    model, steps = landing.model, landing.steps
    others = record((0.2, 0.35), num_steps=12, seed=1).steps
    optimizer = torch.optim.Adam(model.network.parameters(), lr=5e-3)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        before = errors(model, others).square().mean()
    for _ in range(60):
        rows = torch.randint(len(steps.q), (256,), generator=generator)
        batch = Steps(*(x[rows] for x in steps[:4]), Contacts(*(x[rows] for x in steps.contacts)))
        off = errors(model, batch)
        optimizer.zero_grad()
        torch.nn.functional.smooth_l1_loss(off, torch.zeros_like(off)).backward()
        torch.nn.utils.clip_grad_norm_(model.network.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        after = errors(model, others).square().mean()
    assert after < 0.5 * before


def test_neither_order_nor_empty_places_matter(landing):
    model, steps = landing.model, landing.steps
    order = torch.randperm(16, generator=torch.Generator().manual_seed(0))
    mixed = Contacts(*(x[:, :, order] for x in steps.contacts))
    noise = torch.where(mixed.valid[..., None], mixed.geometry, torch.randn_like(mixed.geometry))
    with torch.no_grad():
        a, b = (errors(model, steps._replace(contacts=contacts)) for contacts in (steps.contacts, mixed))
        c = errors(model, steps._replace(contacts=mixed._replace(geometry=noise)))
    assert torch.allclose(a, b, atol=1e-4) and torch.equal(b, c)


def test_where_the_robot_is_and_looks_does_not_matter(landing):
    model, steps = landing.model, landing.steps
    turn = normalize(torch.tensor([0.0, 0.0, 0.8, 0.5])).expand(len(steps.q), 4)
    q = steps.q.clone()
    q[:, :2] += 3.0
    q[:, 3:7] = quat_mul(turn, q[:, 3:7])
    rotate = torch.eye(3)
    cos, sin = 0.5**2 - 0.8**2, 2.0 * 0.5 * 0.8
    rotate[:2, :2] = torch.tensor([[cos, -sin], [sin, cos]]) / 0.89
    qd, qd_next = (
        torch.cat((x[:, :3] @ rotate.T, x[:, 3:6] @ rotate.T, x[:, 6:]), -1) for x in (steps.qd, steps.qd_next)
    )
    with torch.no_grad():
        a, b = errors(model, steps), errors(model, steps._replace(q=q, qd=qd, qd_next=qd_next))
    assert torch.allclose(a, b, atol=2e-3)


def test_a_file_holds_the_masses(landing, tmp_path):
    save_model(tmp_path / "walker.nerd", landing.model, landing.fingerprint)
    loaded, _ = load_model(tmp_path / "walker.nerd")
    with torch.no_grad():
        assert torch.equal(errors(loaded, landing.steps), errors(landing.model, landing.steps))


def test_a_robot_without_masses_is_refused(flying):
    with pytest.raises(ConfigError, match="ContactImpulses: it needs the masses of a robot"):
        NeRDModel(flying.model.layout, "ContactImpulses", {}, SEARCH)


def test_ground_of_several_materials_is_refused(landing, tmp_path):
    text = (ASSETS / "walker.xml").read_text()
    patch = '<geom name="ice" type="box" size="1 1 0.1" pos="3 0 -0.1" friction="0.1 0.005 0.0001"/>'
    asset = tmp_path / "on_ice.xml"
    asset.write_text(text.replace("<worldbody>", f"<worldbody>{patch}", 1))
    teacher = make_walkers(1, asset=asset)
    save_model(tmp_path / "walker.nerd", landing.model, teacher.fingerprint())
    teacher.close()
    with pytest.raises(ConfigError, match=r"one material of the ground, and shapes of it differ: friction .*0\.1"):
        make_walkers(1, asset=asset, solver=NeRDSolverCfg(model=str(tmp_path / "walker.nerd")))


CUDA = pytest.param("cuda:0", marks=pytest.mark.gpu)


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_kernels_move_robots_as_the_network_does(landing, device):
    """Each step in a world of its own, with weights that do something."""
    model, steps = copy.deepcopy(landing.model).to(device), landing.steps
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape).to(device))
        q, qd, effort = (value.to(device, copy=True) for value in (steps.q, steps.qd, steps.effort))
        contacts = Contacts(*(value.to(device) for value in steps.contacts))
        q[::4, 7:] = model.network.limits[:, 1] - 0.03
        expected = model.step(model.make_history(len(q)), q, qd, effort, contacts)
    worlds = make_walkers(len(q), device)._model
    state = worlds.state()
    wp.to_torch(state.joint_q).copy_(q.flatten())
    wp.to_torch(state.joint_qd).copy_(qd.flatten())
    newton.eval_fk(worlds, state.joint_q, state.joint_qd, state)
    columns = (contacts.valid[..., None].float(), contacts.owner[..., None].float(), contacts.geometry)
    tokens = torch.cat(columns, dim=-1)[:, 0].contiguous()
    efforts = torch.nn.functional.pad(effort, (6, 0)).flatten()
    step = ImpulseStep(worlds, model, wp.from_torch(tokens))
    assert contacts.valid.any(), "nothing that pushes is tried"
    for _ in range(2):  # nothing is left over from the step before
        step(state, wp.from_torch(efforts), state.joint_q, state.joint_qd)
        found = [wp.to_torch(x).view(len(q), -1).clone() for x in (state.joint_q, state.joint_qd)]
        wp.to_torch(state.joint_q).copy_(q.flatten())
        wp.to_torch(state.joint_qd).copy_(qd.flatten())
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=5e-5)
    assert (expected[1] - qd).abs().amax(dim=0).min() > 0.05


@pytest.mark.gpu
def test_a_graph_predicts_what_the_cpu_does(landing):
    representation, steps = landing.model.representation, landing.steps
    features = representation.features(steps.q, steps.qd, steps.effort)[:, None]
    with torch.no_grad():
        expected = landing.model.predict(features, steps.contacts)
        model, features = copy.deepcopy(landing.model).cuda(), features.cuda()
        contacts = Contacts(*(value.cuda() for value in steps.contacts))
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            model.predict(features, contacts)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = model.predict(features, contacts)
        graph.replay()
    torch.testing.assert_close(captured.cpu(), expected, rtol=1e-3, atol=1e-3)
