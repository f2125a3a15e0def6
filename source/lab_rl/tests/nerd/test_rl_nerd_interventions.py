"""Recorded velocities in the place of predicted ones show which of them spoil the wrenches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lab_core.errors import LabError
from lab_core.kinematics import KinematicTree
from lab_newton.nerd import ContactPoints, Representation, RobotProperties, WrenchReconstruction
from lab_rl.nerd.interventions import describe_interventions, intervene

STILL = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)


@pytest.fixture
def quadruped(layout):
    """A base with a hinged link of each kind of joint."""
    joints = ("LF_HAA", "LF_HFE", "LF_KFE")
    layout = replace(
        layout,
        joint_names=joints,
        joint_kinds=("hinge",) * 3,
        continuous=(True,) * 3,
        actuated=joints,
        floating=True,
        dt=0.005,
    )
    at = (0.0, 0.1, -0.1, 0.0, 0.0, 0.0, 1.0)
    tree = KinematicTree(
        body_names=("base", "hip", "thigh", "shank"),
        parents=(-1, 0, 1, 2),
        body_joints=(-1, 0, 1, 2),
        parent_frames=(STILL, at, at, at),
        child_frames=(STILL,) * 4,
        centers_of_mass=((0.0, 0.0, 0.0), *(((0.0, 0.02, -0.1),) * 3)),
        joint_names=joints,
        joint_kinds=("hinge",) * 3,
        joint_axes=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 1.0, 0.0)),
        free_root=True,
    )
    robot = RobotProperties(
        tree=tree,
        mass=torch.tensor([10.0, 1.0, 1.0, 0.5]),
        inertia=torch.diag_embed(torch.tensor([[0.2, 0.3, 0.3], *([[0.01, 0.01, 0.002]] * 3)])),
        armature=torch.full((3,), 0.005),
        damping=torch.zeros(3),
        limits=torch.tensor([[-9.0, 9.0]] * 3),
        gravity=torch.tensor(layout.gravity),
    )
    return layout, robot


def test_the_group_that_is_wrong_is_found(quadruped):
    layout, robot = quadruped
    representation = Representation(layout)
    generator = torch.Generator().manual_seed(0)
    q, qd = torch.zeros(32, 10), torch.randn(32, 9, generator=generator)
    q[:, 6], q[:, 7:] = 1.0, 0.3 * torch.randn(32, 3, generator=generator)
    effort = torch.randn(32, 3, generator=generator)
    contacts = ContactPoints(
        active=torch.ones(32, 1, dtype=torch.bool),
        part=torch.full((32, 1), 3),
        point=torch.tensor([0.0, 0.3, -0.6]).expand(32, 1, 3),
        normal=torch.tensor([0.0, 0.0, 1.0]).expand(32, 1, 3),
    )
    reconstruct = WrenchReconstruction(layout, robot)

    def wrenches(velocity):
        return reconstruct(q, qd, velocity, effort, contacts)

    recorded = qd + layout.dt * wrenches(qd).acceleration.float()
    predicted = representation.velocity_change(q, qd, recorded)
    predicted[:, 2] += 0.05  # the vertical velocity of the base alone is wrong
    errors = intervene(representation, (q, qd), predicted, recorded, wrenches)
    assert errors["none"].force > 0.1
    assert errors["base linear velocity"].force < 0.01 * errors["none"].force
    assert errors["all velocities"].force < 1e-6 and errors["all velocities"].torque < 1e-6
    assert errors["knee"] == errors["none"]
    table = describe_interventions(errors)
    assert len(table) == 2 + 7 and table[2].startswith("| none |")
    truth = wrenches(recorded)
    shifted = (truth.force + torch.tensor([3.0, 0.0, 0.0]), truth.torque)
    floor = intervene(representation, (q, qd), predicted, recorded, wrenches, shifted)["all velocities"]
    assert floor.force == pytest.approx(3.0, rel=1e-3)


def test_a_group_of_no_channel_is_refused(quadruped):
    layout, _ = quadruped
    q, qd = torch.zeros(1, 10), torch.zeros(1, 9)
    with pytest.raises(LabError, match="'ankle'.*is of no channel.*root velocity x"):
        intervene(
            Representation(layout),
            (q, qd),
            qd,
            qd,
            lambda velocity: None,  # pyright: ignore[reportArgumentType]
            (q, qd),
            {"ankle": "velocity .*_ANKLE"},
        )
