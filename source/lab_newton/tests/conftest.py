"""Small worlds that the tests share, on the CPU and on a GPU.

A backend takes seconds to build, so each is built once per device and put back between tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lab_core.scene import ActuatorCfg, ArticulationCfg, GroundCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend

ASSETS = Path(__file__).parent / "newton_assets"
MakeBackend = Callable[..., NewtonBackend]
State = dict[str, torch.Tensor]
CUDA = pytest.param(
    "cuda:0",
    marks=pytest.mark.gpu,
)


@pytest.fixture(scope="session", params=["cpu", CUDA])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Where physics runs. What does not depend on it is tested on the CPU only:
    ``@pytest.mark.parametrize("device", ["cpu"], indirect=True)``."""
    return torch.device(request.param)


@pytest.fixture(scope="session")
def assert_same(device: torch.device) -> Callable[..., None]:
    """Compares two states (``state_dict()``) that the same steps led to, all of their rows or some.

    They are bitwise equal on a CPU. On a GPU, MuJoCo Warp adds up in the order in which threads arrive: positions and
    velocities may differ by 0.005, rates of change by more, since rounding is divided by a step of milliseconds; what
    is counted is equal.
    """

    def check(first: State, second: State, rows: slice | list[int] = slice(None), num_envs: int = 3) -> None:
        assert first.keys() == second.keys()
        for name in first:
            a, b = first[name], second[name]
            if name != "non_finite_count":
                a, b = (x.reshape(num_envs, -1)[rows] for x in (a, b))
            if device.type == "cpu" or not a.is_floating_point():
                assert torch.equal(a, b), name
                continue
            is_rate = any(word in name for word in ("acc", "effort", "force", "wrench"))
            rtol, atol = (0.05, 0.5) if is_rate else (0.005, 0.005)
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}")

    return check


@pytest.fixture(scope="session")
def rover_cfg() -> ArticulationCfg:
    """A floating base with two driven hinges, a free one, and centres of mass off the frames' origins."""
    arm = IdealPDActuatorCfg(
        joint_names=("shoulder", "wrist"), stiffness=20.0, damping=1.0, effort_limit={"shoulder": 5.0, "wrist": 2.0}
    )
    init = InitialStateCfg(pos=(0.0, 0.0, 0.5), joint_pos={"shoulder": 0.3, "wrist": -0.2, "tail": 0.1})
    return ArticulationCfg(asset=str(ASSETS / "rover.xml"), init_state=init, actuators={"arm": arm})


@pytest.fixture(scope="session")
def make_rover(rover_cfg: ArticulationCfg, device: torch.device) -> MakeBackend:
    """Builds worlds with one rover each; keywords go to ``NewtonCfg``."""

    def make(num_envs: int = 3, entity: ArticulationCfg = rover_cfg, **physics) -> NewtonBackend:
        settings = {"dt": 0.005, "solver": MuJoCoSolverCfg(njmax=96, nconmax=32)} | physics
        scene = SceneCfg(entities={"robot": entity})
        torch.manual_seed(0)  # equal streams, whatever ran before
        return NewtonBackend(NewtonCfg(**settings), scene, num_envs, device)

    return make


@pytest.fixture(scope="session")
def make_actuated(make_rover: MakeBackend, rover_cfg: ArticulationCfg) -> MakeBackend:
    """Builds flying rovers with the given actuator groups."""

    def make(num_envs: int = 3, **actuators: ActuatorCfg) -> NewtonBackend:
        entity = replace(rover_cfg, actuators=actuators)
        return make_rover(num_envs=num_envs, entity=entity, solver=MuJoCoSolverCfg(contacts=False))

    return make


@pytest.fixture(scope="session")
def cart_pole_cfg() -> ArticulationCfg:
    """A fixed base with a driven slide and a free hinge; nothing of it collides."""
    return ArticulationCfg(
        asset=str(ASSETS / "cart_pole.xml"),
        init_state=InitialStateCfg(pos=(0.0, 0.0, 2.0)),
        actuators={"cart": IdealPDActuatorCfg(joint_names=("slider_to_cart",), damping=10.0, effort_limit=400.0)},
    )


@pytest.fixture(scope="session")
def make_cart_pole(cart_pole_cfg: ArticulationCfg, device: torch.device) -> MakeBackend:
    """Builds worlds with one cart-pole each, on a fixed base and without contacts; keywords go to ``NewtonCfg``."""

    def make(num_envs: int = 3, **physics) -> NewtonBackend:
        settings = {"dt": 1.0 / 120.0, "solver": MuJoCoSolverCfg(contacts=False)} | physics
        scene = SceneCfg(ground=GroundCfg(collision=False), entities={"robot": cart_pole_cfg})
        torch.manual_seed(0)  # equal streams, whatever ran before
        return NewtonBackend(NewtonCfg(**settings), scene, num_envs, device)

    return make


@pytest.fixture(scope="session")
def shared_rover(make_rover: MakeBackend) -> tuple[NewtonBackend, State]:
    backend = make_rover()
    return backend, backend.state_dict()


@pytest.fixture(scope="session")
def shared_cart_pole(make_cart_pole: MakeBackend) -> tuple[NewtonBackend, State]:
    backend = make_cart_pole()
    return backend, backend.state_dict()


@pytest.fixture
def rover(shared_rover: tuple[NewtonBackend, State]) -> Iterator[NewtonBackend]:
    """Three rovers on the ground, as freshly built."""
    backend, fresh = shared_rover
    backend.load_state_dict(fresh)
    backend.health()
    yield backend


@pytest.fixture
def cart_pole(shared_cart_pole: tuple[NewtonBackend, State]) -> Iterator[NewtonBackend]:
    """Three cart-poles, as freshly built."""
    backend, fresh = shared_cart_pole
    backend.load_state_dict(fresh)
    backend.health()
    yield backend
