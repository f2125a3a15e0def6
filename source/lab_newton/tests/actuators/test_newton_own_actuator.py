"""A kind of actuator that lab_newton does not know: stepped, limited, delayed, randomised, reset and checkpointed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.errors import ConfigError
from lab_core.managers import EventManager, EventTermCfg, SceneEntityCfg, TermError
from lab_core.scene import ActuatorCfg, IdealPDActuatorCfg, Scene, require_number
from lab_core.testing import check_masked_reset
from lab_newton.actuators import Drive, make_drive
from lab_newton.backend import NewtonBackend
from lab_newton.state import NewtonEntity

pytestmark = pytest.mark.parametrize("device", ["cpu"], indirect=True)
REST, STIFFNESS, LIMIT = 0.1, 30.0, 2.5


@wp.kernel(enable_backward=False)
def pull(
    joint: wp.int32,
    rest: wp.float32,
    stiffness: wp.array2d[wp.float32],
    positions: wp.array[wp.float32],
    pos_indices: wp.array[wp.uint32],
    steps: wp.array2d[wp.int32],
    efforts: wp.array[wp.float32],
):
    world = wp.tid()
    slot = world * stiffness.shape[1] + joint
    stretch = positions[pos_indices[slot]] - rest
    efforts[slot] = -stiffness[world, joint] * stretch * wp.abs(stretch)
    steps[world, 0] = steps[world, 0] + 1


@wp.kernel(enable_backward=False)
def forget(mask: wp.array[wp.bool], steps: wp.array2d[wp.int32]):
    world = wp.tid()
    if mask[world]:
        steps[world, 0] = 0


@dataclass(kw_only=True)
class SpringCfg(ActuatorCfg):
    """A spring whose pull grows with the square of its stretch; no target moves it."""

    stiffness: float = STIFFNESS
    rest: float = REST

    def joint_parameters(self):
        return super().joint_parameters() | {"joint_stiffness": self.stiffness}

    def check(self, what: str) -> None:
        super().check(what)
        require_number(what, "stiffness", self.stiffness, above=0.0)


class Spring(Drive):
    """In place of the PD law; it counts its steps."""

    def __init__(self, cfg: SpringCfg, joints: Sequence[int], entity: NewtonEntity) -> None:
        (self._joint,) = joints
        self._rest = cfg.rest
        self._stiffness = entity.data.warp.joint_stiffness
        self._steps = wp.zeros((entity.num_envs, 1), dtype=wp.int32, device=entity.device)

    def change_efforts(
        self, positions, velocities, target_pos, pos_indices, vel_indices, target_pos_indices, efforts
    ) -> None:
        inputs = [self._joint, self._rest, self._stiffness, positions, pos_indices]
        wp.launch(pull, len(self._steps), inputs=inputs, outputs=[self._steps, efforts], device=efforts.device)

    def reset(self, mask: wp.array) -> None:
        wp.launch(forget, len(self._steps), inputs=[mask], outputs=[self._steps], device=mask.device)

    def memory(self) -> dict[str, torch.Tensor]:
        return {"steps": wp.to_torch(self._steps)}


make_drive.register(SpringCfg, Spring)


@dataclass(kw_only=True)
class MuscleCfg(ActuatorCfg):
    """Nothing makes it pull."""


@pytest.fixture(scope="module")
def shared(make_actuated) -> tuple[NewtonBackend, dict[str, torch.Tensor]]:
    spring = SpringCfg(joint_names=("shoulder",), effort_limit=LIMIT)
    wrist = IdealPDActuatorCfg(joint_names=("wrist",), stiffness=20.0, damping=1.0, effort_limit=5.0)
    backend = make_actuated(spring=spring, wrist=wrist)
    return backend, backend.state_dict()


@pytest.fixture
def backend(shared) -> NewtonBackend:
    backend, fresh = shared
    backend.load_state_dict(fresh)
    return backend


def shoulder(backend: NewtonBackend) -> int:
    return backend.entities["robot"].joint_names.index("shoulder")


def put(backend: NewtonBackend, position: float) -> None:
    backend.entities["robot"].joint_pos[:, shoulder(backend)] = position
    backend.mark_written(torch.ones(3, dtype=torch.bool))


def applied(backend: NewtonBackend) -> list[float]:
    return backend.entities["robot"].applied_effort[:, shoulder(backend)].tolist()


def test_it_pulls_whatever_the_target_is_and_the_limit_holds(backend):
    data = backend.entities["robot"]
    data.joint_pos_target.fill_(1.0)
    data.joint_effort_target[:, shoulder(backend)] = 1.0
    put(backend, 0.3)
    backend.step(1)
    assert applied(backend) == pytest.approx([-STIFFNESS * 0.2**2] * 3)
    assert data.applied_effort[:, data.joint_names.index("wrist")].tolist() == [5.0] * 3, "the PD law beside it"
    put(backend, -0.5)
    backend.step(1)
    assert applied(backend) == [LIMIT] * 3
    before = data.joint_vel[:, shoulder(backend)].clone()
    backend.step(1)
    assert (data.joint_vel[:, shoulder(backend)] > before).all(), "the solver got it"


def test_a_reset_by_mask_forgets_and_a_checkpoint_remembers(backend):
    backend.step(3)
    saved = backend.state_dict()
    assert saved["actuators.robot.drive_0.steps"].tolist() == [[3]] * 3
    backend.reset(torch.tensor([False, True, False]))
    assert backend.state_dict()["actuators.robot.drive_0.steps"].tolist() == [[3], [0], [3]]
    backend.load_state_dict(saved)
    assert backend.state_dict()["actuators.robot.drive_0.steps"].tolist() == [[3]] * 3
    assert "actuators.robot.drive_0.steps" in check_masked_reset(backend, backend.reset, num_envs=3)


def gains(backend: NewtonBackend, **params) -> None:
    """Applies the event that draws gains once, in all environments."""
    params = {"asset_cfg": SceneEntityCfg("robot", joint_names=("shoulder",))} | params
    env = SimpleNamespace(
        scene=Scene(backend._scene, backend), physics=backend, num_envs=3, device=backend.device, step_dt=0.02,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    cfg = {"gains": EventTermCfg(func=mdp.randomize_actuator_gains, mode="startup", params=params)}
    EventManager(cfg, env).apply("startup")


def test_an_event_draws_its_stiffness_and_the_spring_pulls_by_it(backend):
    gains(backend, stiffness_distribution_params=(0.5, 1.5), operation="scale")
    drawn = backend.entities["robot"].joint_stiffness[:, shoulder(backend)]
    assert len(set(drawn.tolist())) == 3 and (drawn > 0.5 * STIFFNESS).all()
    put(backend, 0.3)
    backend.step(1)
    assert applied(backend) == pytest.approx((-drawn * 0.2**2).tolist())


def test_an_event_cannot_draw_a_damping_that_it_does_not_have(backend):
    with pytest.raises(TermError, match=r"actuators\['spring'\] of 'robot' is a SpringCfg, which has no damping, and"):
        gains(backend, damping_distribution_params=(0.5, 1.5))


def test_impossible_values_name_the_group(make_actuated):
    with pytest.raises(ConfigError, match="Actuator group 'spring' of 'robot': stiffness must be finite and above 0"):
        make_actuated(spring=SpringCfg(joint_names=("shoulder",), stiffness=0.0))


def test_an_unknown_kind_names_its_key_its_class_and_the_kinds_there_are(make_actuated):
    known = "IdealPDActuatorCfg, LSTMActuatorCfg, SpringCfg"
    message = f"scene.entities['robot'].actuators['arm']: no drive is registered for a MuscleCfg, only for {known}."
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_actuated(arm=MuscleCfg(joint_names=("shoulder",)))
