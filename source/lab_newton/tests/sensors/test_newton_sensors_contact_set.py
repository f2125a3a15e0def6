"""Contact sets against geometry that is known."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import newton
import numpy as np
import pytest
import torch

from lab_core.errors import ConfigError
from lab_core.physics import CapacityError
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSetCfg, SensorCfg, split_tokens
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.contact_set import find_parts

ASSETS = Path(__file__).parents[1] / "newton_assets"
GOLDEN = Path(__file__).parent / "contact_tokens.npz"
FOOT_HEIGHT = 0.23
"""Of the root, when the feet touch the ground with straight legs."""


def make(
    device: torch.device,
    height: float = FOOT_HEIGHT,
    num_envs: int = 2,
    sensors: dict[str, SensorCfg] | None = None,
    strict: bool = False,
    **settings,
) -> NewtonBackend:
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=200.0, damping=4.0, effort_limit=100.0)
    walker = ArticulationCfg(
        asset=str(ASSETS / "walker.xml"), init_state=InitialStateCfg(pos=(0.0, 0.0, height)), actuators={"legs": legs}
    )
    sensors = sensors or {"contacts": ContactSetCfg(**settings)}
    solver = MuJoCoSolverCfg(njmax=100, nconmax=24, strict_capacity=strict)
    scene = SceneCfg(entities={"robot": walker}, sensors=sensors)
    return NewtonBackend(NewtonCfg(dt=0.005, solver=solver), scene, num_envs, device)


def tokens_of(backend: NewtonBackend) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return split_tokens(backend.sensors["contacts"].tokens)


def test_feet_above_the_ground(device):
    backend = make(device, FOOT_HEIGHT + 0.02, distance=0.05)
    data = backend.sensors["contacts"]
    backend.step(1)
    valid, owner, geometry = (value.cpu() for value in tokens_of(backend))
    assert valid.sum(dim=1).tolist() == [4, 4], "one per foot"
    names = {data.part_names[part] for part in owner[0][valid[0]]}
    assert len(names) == 4 and data.part_names[0] not in names, "each foot belongs to its own leg"
    found = geometry[0][valid[0]]
    assert torch.allclose(found[:, 3:6], torch.tensor([0.0, 0.0, 1.0]).expand(4, 3), atol=1e-4), "from ground to foot"
    assert torch.allclose(found[:, 9], torch.full((4,), 0.02), atol=1e-4)
    assert torch.allclose(found[:, 2], torch.full((4,), -FOOT_HEIGHT), atol=1e-4), "below the root, on the foot"
    assert torch.allclose(geometry[0], geometry[1]) and not tokens_of(backend).geometry[~tokens_of(backend).valid].any()
    assert data.excess.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_what_is_seen_of_contacts_stays_what_it_was(device):
    """64 robots near the ground, as their tokens were in a file of December 2026: learned models are made of these."""
    backend = make(device, num_envs=64, distance=0.05, capacity=16)
    generator = torch.Generator().manual_seed(26)
    data = backend.entities["robot"]

    def draw(width: int, scale: float) -> torch.Tensor:
        return scale * (2.0 * torch.rand(64, width, generator=generator) - 1.0)

    data.root_link_pose_w[:, 2] += 0.05 * torch.rand(64, generator=generator)
    quat = torch.cat((draw(3, 0.2), torch.ones(64, 1)), dim=1)
    data.root_link_pose_w[:, 3:] = quat / quat.norm(dim=1, keepdim=True)
    data.root_com_vel_w.copy_(draw(6, 1.0))
    data.joint_pos.copy_(draw(4, 0.3))
    data.joint_vel.copy_(draw(4, 2.0))
    backend.written.fill_(True)
    backend.step(1)
    tokens = backend.sensors["contacts"].tokens
    with np.load(GOLDEN) as golden:
        known = torch.from_numpy(golden["tokens"])
    assert torch.equal(tokens[..., :2], known[..., :2]), "valid, owner"
    torch.testing.assert_close(tokens, known, rtol=0.0, atol=1e-5)
    assert tokens[..., 0].sum() > 64


def test_tokens_are_those_of_the_beginning_and_move_with_the_root(device):
    """Turned and elsewhere, geometry in the root's frame is the same; velocity is that of the foot."""
    backend = make(device, distance=0.1)
    data = backend.entities["robot"]
    angle = 2.0
    turned = [5.0, -2.0, FOOT_HEIGHT + 0.03, 0.0, 0.0, math.sin(0.5 * angle), math.cos(0.5 * angle)]
    data.root_link_pose_w.copy_(torch.tensor([[0.0, 0.0, FOOT_HEIGHT + 0.03, 0.0, 0.0, 0.0, 1.0], turned]))
    speed = [math.cos(angle), math.sin(angle), -0.5, 0.0, 0.0, 0.0]
    data.root_com_vel_w.copy_(torch.tensor([[1.0, 0.0, -0.5, 0.0, 0.0, 0.0], speed]))
    backend.written.fill_(True)
    backend.step(1)
    valid, owner, geometry = (value.cpu() for value in tokens_of(backend))
    assert torch.equal(owner[0], owner[1]) and torch.equal(valid[0], valid[1])
    assert torch.allclose(geometry[0], geometry[1], atol=2e-5)
    moving = geometry[0][valid[0]][:, 10:13]
    assert torch.allclose(moving, torch.tensor([1.0, 0.0, -0.5]).expand_as(moving), atol=1e-4)
    assert torch.allclose(geometry[0][valid[0]][:, 9], torch.tensor(0.03), atol=1e-4), "before the step, not after it"


def test_nothing_is_near_high_up(device):
    backend = make(device, 1.0, distance=0.05)
    backend.step(1)
    assert not backend.sensors["contacts"].tokens.any()


def test_a_search_does_not_change_the_physics(device):
    plain, searched = make(device, sensors={"other": dataclasses.replace(ContactSetCfg(), distance=1e-6)}), make(device)
    for backend in (plain, searched):
        for _ in range(20):
            backend.step(1)
    a, b = (backend.entities["robot"].root_link_pose_w for backend in (plain, searched))
    assert torch.equal(a, b)


def test_every_substep_can_be_traced(device):
    backend = make(device, FOOT_HEIGHT + 0.02)
    traced = backend.trace("contacts", "tokens", 4)
    backend.step(4)
    gaps = traced[0, :, 0, 11].cpu()
    assert traced.shape == (2, 4, 32, 15)
    assert (gaps.diff() < 0.0).all(), "it falls"
    assert torch.equal(traced[:, -1], backend.sensors["contacts"].tokens)


def test_runs_are_equal_byte_for_byte(device):
    found = []
    for _ in range(2):
        backend = make(device, FOOT_HEIGHT - 0.001, num_envs=7)
        backend.step(4)
        found.append(backend.sensors["contacts"].tokens.cpu().numpy())
    assert np.array_equal(*found)


def test_contacts_without_a_place_are_an_error_not_a_loss_in_silence(device):
    backend = make(device, capacity=1, strict=True)
    backend.step(1)
    assert (backend.sensors["contacts"].excess > 0).all()
    # The pool of both worlds is full before the places of each are counted.
    with pytest.raises(CapacityError, match="room for 2 contacts and need 8: raise the capacity to at least 4"):
        backend.health()
    backend = make(device, capacity=1)
    backend.step(1)
    assert "contact set" in backend.health().overflows
    assert not backend.health().overflows, "said once"


@pytest.mark.parametrize(("settings", "message"), [({"capacity": 0}, "capacity"), ({"distance": 0.0}, "distance")])
def test_impossible_numbers_are_refused_by_name(settings, message):
    with pytest.raises(ConfigError, match=rf"scene.sensors\['contacts'\].{message} must be"):
        make(torch.device("cpu"), **settings)


def test_all_look_at_one_set():
    two = {"near": ContactSetCfg(distance=0.05), "far": ContactSetCfg(distance=0.1)}
    with pytest.raises(ConfigError, match=r"'near'\].distance is 0.05, .*'far'\].distance is 0.1"):
        make(torch.device("cpu"), sensors=two)


def test_what_a_ball_joint_moves_is_a_part_and_what_is_welded_is_none():
    builder = newton.ModelBuilder()
    names = ("base", "arm", "hand", "tip")
    base, arm, hand, tip = (builder.add_link(mass=1.0, label=name) for name in names)
    joints = [
        builder.add_joint_free(child=base),
        builder.add_joint_ball(parent=base, child=arm),
        builder.add_joint_fixed(parent=arm, child=hand),
        builder.add_joint_revolute(parent=hand, child=tip),
    ]
    builder.add_articulation(joints)
    assert find_parts(builder.finalize(device="cpu")) == ([0, 1, 1, 2], ["base", "arm", "tip"], 0)
