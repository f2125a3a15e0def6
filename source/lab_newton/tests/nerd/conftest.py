"""Robots, models and states that the tests of learned dynamics share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lab_core.math import normalize
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd import NeRDModel, RobotLayout

State = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@pytest.fixture
def cart_pole_layout() -> RobotLayout:
    return RobotLayout(
        joint_names=("slider_to_cart", "cart_to_pole"),
        joint_kinds=("slide", "hinge"),
        continuous=(False, True),
        actuated=("slider_to_cart",),
        floating=False,
        root_com=(0.0, 0.0, 0.0),
        gravity=(0.0, 0.0, -9.81),
        dt=1.0 / 120.0,
    )


@pytest.fixture
def rover_layout() -> RobotLayout:
    return RobotLayout(
        joint_names=("shoulder", "wrist", "tail"),
        joint_kinds=("hinge", "hinge", "hinge"),
        continuous=(False, False, True),
        actuated=("shoulder", "wrist"),
        floating=True,
        root_com=(0.05, 0.02, -0.03),
        gravity=(0.0, 0.0, -9.81),
        dt=0.005,
    )


@pytest.fixture(params=["cart_pole_layout", "rover_layout"])
def layout(request: pytest.FixtureRequest) -> RobotLayout:
    return request.getfixturevalue(request.param)


@pytest.fixture
def make_state() -> Callable[..., State]:
    """Draws poses (..., Q), velocities (..., V) and efforts (..., J)."""

    def make(layout: RobotLayout, *shape: int, seed: int = 0) -> State:
        generator = torch.Generator().manual_seed(seed)

        def draw(width: int) -> torch.Tensor:
            return torch.randn(*shape, width, generator=generator)

        q = draw(layout.num_positions)
        if layout.floating:
            q[..., 3:7] = normalize(q[..., 3:7])
        return q, draw(layout.num_velocities), draw(layout.num_joints)

    return make


@pytest.fixture
def make_model(make_state: Callable[..., State]) -> Callable[..., NeRDModel]:
    """Makes a model with scales of its own, that nobody trained."""

    def make(
        layout: RobotLayout, network: str = "MLP", seed: int = 0, search: ContactSearch | None = None, **options
    ) -> NeRDModel:
        torch.manual_seed(seed)
        model = NeRDModel(layout, network, options or {"hidden": [16, 16]}, search)
        q, qd, effort = make_state(layout, 64, seed=seed)
        model.inputs.fit(model.representation.features(q, qd, effort))
        model.changes.fit(0.05 * qd)
        return model.eval().requires_grad_(False)

    return make
