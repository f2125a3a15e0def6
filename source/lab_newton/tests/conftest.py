"""Small worlds that the tests share.

A backend takes seconds to build, so each is built once and put back between tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from lab_core.scene import ArticulationCfg, GroundCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

ASSETS = Path(__file__).parent / "newton_assets"
MakeBackend = Callable[..., NewtonBackend]


@pytest.fixture(scope="session")
def rover_cfg() -> ArticulationCfg:
    """A floating base with two driven hinges, a free one, and centres of mass off the frames' origins."""
    arm = IdealPDActuatorCfg(
        joint_names=("shoulder", "wrist"), stiffness=20.0, damping=1.0, effort_limit={"shoulder": 5.0, "wrist": 2.0}
    )
    init = InitialStateCfg(pos=(0.0, 0.0, 0.5), joint_pos={"shoulder": 0.3, "wrist": -0.2, "tail": 0.1})
    return ArticulationCfg(asset=str(ASSETS / "rover.xml"), init_state=init, actuators={"arm": arm})


@pytest.fixture(scope="session")
def make_rover(rover_cfg: ArticulationCfg) -> MakeBackend:
    """Builds worlds with one rover each; keywords go to ``NewtonCfg``."""

    def make(num_envs: int = 3, entity: ArticulationCfg = rover_cfg, **physics) -> NewtonBackend:
        settings = {"dt": 0.005, "solver": MuJoCoSolverCfg(njmax=96, nconmax=32)} | physics
        scene = SceneCfg(entities={"robot": entity})
        return NewtonBackend(NewtonCfg(**settings), scene, num_envs, torch.device("cpu"))

    return make


@pytest.fixture(scope="session")
def make_cart_pole() -> MakeBackend:
    """Builds worlds with one cart-pole each, on a fixed base and without contacts; keywords go to ``NewtonCfg``."""
    entity = ArticulationCfg(
        asset=str(ASSETS / "cart_pole.xml"),
        init_state=InitialStateCfg(pos=(0.0, 0.0, 2.0)),
        actuators={"cart": IdealPDActuatorCfg(joint_names=("slider_to_cart",), damping=10.0, effort_limit=400.0)},
    )

    def make(num_envs: int = 3, **physics) -> NewtonBackend:
        settings = {"dt": 1.0 / 120.0, "solver": MuJoCoSolverCfg(contacts=False)} | physics
        scene = SceneCfg(ground=GroundCfg(collision=False), entities={"robot": entity})
        return NewtonBackend(NewtonCfg(**settings), scene, num_envs, torch.device("cpu"))

    return make


@pytest.fixture(scope="session")
def shared_rover(make_rover: MakeBackend) -> tuple[NewtonBackend, dict]:
    backend = make_rover()
    return backend, backend.state_dict()


@pytest.fixture(scope="session")
def shared_cart_pole(make_cart_pole: MakeBackend) -> tuple[NewtonBackend, dict]:
    backend = make_cart_pole()
    return backend, backend.state_dict()


@pytest.fixture
def rover(shared_rover: tuple[NewtonBackend, dict]) -> Iterator[NewtonBackend]:
    """Three rovers on the ground, as freshly built."""
    backend, fresh = shared_rover
    backend.load_state_dict(fresh)
    backend.health()
    yield backend


@pytest.fixture
def cart_pole(shared_cart_pole: tuple[NewtonBackend, dict]) -> Iterator[NewtonBackend]:
    """Three cart-poles, as freshly built."""
    backend, fresh = shared_cart_pole
    backend.load_state_dict(fresh)
    backend.health()
    yield backend
