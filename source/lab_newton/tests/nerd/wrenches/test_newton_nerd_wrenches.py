"""Wrenches that follow from motion, against MuJoCo Warp's own and against a plain dense search."""

from __future__ import annotations

from dataclasses import replace

import newton
import pytest
import torch
import warp as wp
from torch import Tensor

from lab_core.errors import ConfigError, LabError
from lab_core.math import normalize
from lab_newton.nerd.wrenches import ContactPoints, RigidBodies, RobotProperties, WrenchReconstruction, reconstruction
from lab_newton.nerd.wrenches.contacts import PROXIMAL, STEPS


def test_the_mass_matrix_is_newtons(teacher, record):
    motion = record(3)
    backend = teacher.backend
    q, qd = (wp.to_torch(x).view(4, -1) for x in (backend._state.joint_q, backend._state.joint_qd))
    newton.eval_fk(backend._model, backend._state.joint_q, backend._state.joint_qd, backend._state)
    expected = wp.to_torch(newton.eval_mass_matrix(backend._model, backend._state))
    found = RigidBodies(teacher.robot)(q, qd)
    torch.testing.assert_close(found.mass_matrix.float(), expected, atol=1e-5, rtol=1e-5)
    assert motion.q.shape[-1] == 11


def test_motion_of_the_teacher_gives_its_wrenches(teacher, record):
    motion = record(200)
    reconstruct = WrenchReconstruction(teacher.layout, teacher.robot, friction=0.8)
    contacts = ContactPoints.from_tokens(motion.tokens, motion.q[..., :7])
    found = reconstruct(motion.q, motion.qd, motion.qd_next, motion.effort, contacts)
    truth = motion.wrenches[..., list(reconstruct.bodies.parts), :]
    assert found.residual.max() < 5e-5
    assert found.force[..., 0, :].abs().max() < 1e-9  # nothing holds a free root
    errors = torch.cat((found.force, found.torque), dim=-1) - truth
    flying = ~contacts.active.any(-1)
    assert flying.sum() > 10
    assert errors[flying].abs().max() < 1e-3
    touching = errors[~flying][..., 1:, :].square().mean((0, 1)).view(2, 3).sum(-1).sqrt()
    scale = truth[~flying][..., 1:, :].square().mean((0, 1)).view(2, 3).sum(-1).sqrt()
    # Where the trunk lies on the ground as well, forces of several kinds have the same effect.
    assert touching[0] / scale[0] < 0.05 and touching[1] < 0.1, (touching, scale)
    alone = replace(contacts, active=torch.zeros_like(contacts.active))
    without = reconstruct(motion.q, motion.qd, motion.qd_next, motion.effort, alone).force - truth[..., :3]
    assert without[~flying][..., 1:, :].square().mean() > 100 * errors[~flying][..., 1:, :3].square().mean()


@pytest.mark.parametrize("count", [0, 1, 4, 20])
def test_forces_are_those_of_a_plain_dense_search(teacher, monkeypatch, count):
    """Up to 60 rows, sticking, sliding and open ones, also where many forces have the same effect."""
    q, qd, qd_next, effort = draw_steps(8)
    contacts = draw_contacts(8, count, q)
    iterations = 300 if count < 20 else 3000  # what few forces settle in, and many on few bodies
    reconstruct = WrenchReconstruction(teacher.layout, teacher.robot, friction=0.8, iterations=iterations)
    found = reconstruct(q, qd, qd_next, effort, contacts)
    monkeypatch.setattr(reconstruction, "solve_contact_forces", dense_search)
    expected = reconstruct(q, qd, qd_next, effort, contacts)
    assert found.residual.max() < 5e-5
    assert (found.force - expected.force).abs().max() < 1e-3
    assert (found.torque - expected.torque).abs().max() < 1e-4
    if count:
        along = (found.contact_force * contacts.normal).sum(-1, keepdim=True)
        across = (found.contact_force - along * contacts.normal).norm(dim=-1, keepdim=True)
        assert (along > -1e-4).all() and (across <= 0.8 * along + 1e-3).all()
        assert found.contact_force[~contacts.active].abs().max() == 0.0
        assert (along[contacts.active] < 1e-6).any() and (along > 1.0).any()


def test_a_joint_at_its_limit_is_held_back(teacher):
    q, qd, _, effort = draw_steps(2)
    q[:, 7:], qd = torch.tensor([1.0, -1.0, 0.0, 0.0]), torch.zeros_like(qd)
    effort = torch.tensor([4.0, -4.0, 0.0, 4.0]).expand(2, -1)
    none = draw_contacts(2, 0, q)
    falling = torch.zeros_like(qd)
    falling[:, 2] = -9.81 * teacher.layout.dt
    found = WrenchReconstruction(teacher.layout, teacher.robot)(q, qd, falling, effort, none)
    assert (found.limit_force[:, 0] < -1.0).all() and (found.limit_force[:, 1] > 1.0).all()
    assert found.limit_force[:, 2:].abs().max() == 0.0
    assert found.residual.max() < 5e-5


def test_what_cannot_be_reconstructed_is_refused(teacher, monkeypatch):
    other = replace(teacher.layout, joint_names=("a", "b", "c", "d"))
    with pytest.raises(LabError, match="hip_fl.*states of \\('a', 'b'"):
        WrenchReconstruction(other, teacher.robot)
    model, entity = teacher.backend._model, teacher.backend._entities["robot"]
    rubbing = wp.full(model.joint_dof_count, 0.1, dtype=wp.float32)
    monkeypatch.setattr(model, "joint_friction", rubbing)
    with pytest.raises(ConfigError, match="dry friction.*hip_fl"):
        RobotProperties.from_model(model, entity)


def draw_steps(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    q = 0.5 * torch.randn(count, 11, generator=generator)
    q[:, 3:7] = normalize(torch.randn(count, 4, generator=generator))
    q[:, 7:] = q[:, 7:].clamp(-0.9, 0.9)
    qd = torch.randn(count, 10, generator=generator)
    return q, qd, qd + 0.1 * torch.randn(count, 10, generator=generator), torch.randn(count, 4, generator=generator)


def draw_contacts(worlds: int, count: int, q: Tensor) -> ContactPoints:
    generator = torch.Generator().manual_seed(count)
    normal = 0.2 * torch.randn(worlds, count, 3, generator=generator) + torch.tensor([0.0, 0.0, 1.0])
    return ContactPoints(
        active=torch.rand(worlds, count, generator=generator) < 0.8,
        part=torch.arange(count).expand(worlds, -1) % 5,
        point=q[:, None, :3] + 0.2 * torch.randn(worlds, count, 3, generator=generator),
        normal=normalize(normal.double()),
    )


def dense_search(response: Tensor, drift: Tensor, normal: Tensor, friction: Tensor, iterations: int) -> Tensor:
    """The same proximal steps, each by accelerated projected gradients in float64."""
    count = normal.shape[-2]
    if not count:
        return torch.zeros_like(drift)
    matrix = response.reshape(-1, 3 * count, 3 * count)
    own = torch.diagonal(matrix, dim1=-2, dim2=-1).unflatten(-1, (count, 3)).mean(-1)
    root = torch.where(own > 0.0, own, 1.0).repeat_interleave(3, dim=-1).rsqrt()
    matrix = root[..., None] * matrix * root[..., None, :] + PROXIMAL * torch.eye(3 * count, dtype=root.dtype)
    step = 1.0 / torch.linalg.eigvalsh(matrix)[:, -1:]
    found = torch.zeros_like(root)
    for _ in range(STEPS):
        target = PROXIMAL * found - root * drift.flatten(-2)
        force = ahead = found
        age = torch.ones_like(step)
        for _ in range(2_000):
            gradient = torch.einsum("nij,nj->ni", matrix, ahead) - target
            new = cone(ahead - step * gradient, normal, friction)
            turned = (gradient * (new - force)).sum(-1, keepdim=True) > 0.0
            older = torch.where(turned, torch.ones_like(age), age)
            age = 0.5 * (1.0 + (1.0 + 4.0 * older.square()).sqrt())
            ahead = new + torch.where(turned, torch.zeros_like(age), (older - 1.0) / age) * (new - force)
            force = new
        found = force
    return (root * found).unflatten(-1, (count, 3))


def cone(force: Tensor, normal: Tensor, friction: Tensor) -> Tensor:
    force = force.unflatten(-1, normal.shape[-2:])
    along = (force * normal).sum(-1)
    across = force - along[..., None] * normal
    length = across.norm(dim=-1)
    inside, below = length <= friction * along, friction * length <= -along
    edge = (along + friction * length) / (1.0 + friction**2)
    shrink = friction * edge / length.clamp(min=1e-300)
    moved = edge[..., None] * normal + shrink[..., None] * across
    return torch.where(inside[..., None], force, torch.where(below[..., None], 0.0, moved)).flatten(-2)
