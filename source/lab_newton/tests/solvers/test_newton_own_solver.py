"""A solver that lab_newton does not know: stepped, reset by mask, checkpointed, and reported by health."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import newton
import pytest
import torch
import warp as wp
from newton.solvers import SolverBase

from lab_core.errors import ConfigError, LabError
from lab_core.physics import CapacityError
from lab_core.scene import SceneCfg
from lab_core.testing import check_masked_reset
from lab_newton import NewtonCfg, NewtonSolverCfg, SolverCfg
from lab_newton.backend import NewtonBackend
from lab_newton.solvers import Solver

DT = 1.0 / 120.0
pytestmark = pytest.mark.parametrize("device", ["cpu"], indirect=True)


@wp.kernel(enable_backward=False)
def glide(
    joint_f: wp.array2d[wp.float32],
    dt: wp.float32,
    top_speed: wp.float32,
    joint_q: wp.array2d[wp.float32],
    joint_qd: wp.array2d[wp.float32],
    last_effort: wp.array2d[wp.float32],
    capped: wp.array[wp.int32],
):
    world, i = wp.tid()
    speed = joint_qd[world, i] + dt * last_effort[world, i]
    if wp.abs(speed) > top_speed:
        speed = wp.sign(speed) * top_speed
        capped[world] = 1
    joint_qd[world, i] = speed
    joint_q[world, i] = joint_q[world, i] + dt * speed
    last_effort[world, i] = joint_f[world, i]


@wp.kernel(enable_backward=False)
def forget(mask: wp.array[wp.bool], last_effort: wp.array2d[wp.float32]):
    world, i = wp.tid()
    if mask[world]:
        last_effort[world, i] = 0.0


@wp.kernel(enable_backward=False)
def count(mask: wp.array[wp.bool], takeovers: wp.array[wp.int32]):
    world = wp.tid()
    if mask[world]:
        takeovers[world] = takeovers[world] + 1


class Glider(Solver):
    """Joints of mass 1 that feel the effort of the step before, and have a top speed."""

    name = "Glider"
    changeable: ClassVar[int] = int(newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES)

    def __init__(self, cfg: GliderCfg, model: newton.Model) -> None:
        self._cfg, self._model = cfg, model
        self.strict_capacity = cfg.strict
        self.shape = (model.world_count, model.joint_dof_count // model.world_count)
        self.last_effort = wp.zeros(self.shape, dtype=wp.float32, device=model.device)
        self.capped = wp.zeros(model.world_count, dtype=wp.int32, device=model.device)
        self.takeovers = wp.zeros(model.world_count, dtype=wp.int32, device=model.device)
        self.notices: list[int] = []

    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        wp.launch(
            glide,
            dim=self.shape,
            inputs=[control.joint_f.reshape(self.shape), dt, self._cfg.top_speed],
            outputs=[state.joint_q.reshape(self.shape), state.joint_qd.reshape(self.shape)]
            + [self.last_effort, self.capped],
            device=self._model.device,
        )
        newton.eval_fk(self._model, state.joint_q, state.joint_qd, state)

    def take_over(self, state: newton.State, mask: wp.array) -> None:
        wp.launch(count, dim=self.shape[0], inputs=[mask], outputs=[self.takeovers], device=mask.device)

    def reset(self, state: newton.State, mask: wp.array) -> None:
        wp.launch(forget, dim=self.shape, inputs=[mask], outputs=[self.last_effort], device=mask.device)

    def notify(self, flags: int) -> None:
        self.notices.append(flags)

    def memory(self) -> dict[str, wp.array]:
        return {"last_effort": self.last_effort}

    def overflows(self) -> dict[str, str]:
        worlds = int(self.capped.numpy().sum())
        self.capped.zero_()
        return {"speed": f"{worlds} of {len(self.capped)} worlds, raise physics.solver.top_speed"} if worlds else {}


@dataclass(kw_only=True)
class GliderCfg(SolverCfg):
    top_speed: float = 100.0
    strict: bool = False

    def build(self, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> Glider:
        return Glider(self, model)


class Ballast(SolverBase):
    """A class with Newton's own interface: nothing ever moves."""

    def __init__(self, model: newton.Model, gain: float = 1.0) -> None:
        super().__init__(model)
        self.gain = gain

    def step(self, state_in, state_out, control, contacts, dt, *, observables=None) -> None:
        state_out.assign(state_in)


@pytest.fixture(scope="module")
def shared(make_cart_pole) -> tuple[NewtonBackend, dict[str, torch.Tensor]]:
    backend = make_cart_pole(solver=GliderCfg(top_speed=5.0))
    return backend, backend.state_dict()


@pytest.fixture
def backend(shared) -> Iterator[NewtonBackend]:
    backend, fresh = shared
    backend.load_state_dict(fresh)
    backend.health()
    backend.solver.takeovers.zero_()
    yield backend


def push(backend: NewtonBackend, world: int, speed: float) -> None:
    backend.entities["robot"].joint_vel[world, 0] = speed
    mask = torch.zeros(backend.num_envs, dtype=torch.bool)
    mask[world] = True
    backend.mark_written(mask)


def test_it_is_stepped_as_its_closed_form_says(backend):
    data = backend.entities["robot"]
    data.joint_effort_target[:, 0] = 6.0
    backend.step(4)
    # The first of four efforts of 6, damped by 10 per velocity, acts in the second step.
    speeds, efforts = [0.0], [0.0]
    for _ in range(4):
        efforts.append(6.0 - 10.0 * speeds[-1])
        speeds.append(speeds[-1] + DT * efforts[-2])
    torch.testing.assert_close(data.joint_vel[:, 0], torch.full((3,), speeds[-1]))
    assert data.body_com_vel_w[:, 1:].any()
    assert "(Glider)" in backend.description


def test_a_push_is_noticed_once_and_only_where_it_happened(backend):
    push(backend, world=1, speed=2.0)
    backend.forward()
    backend.step(1)
    assert backend.solver.takeovers.numpy().tolist() == [0, 1, 0]
    push(backend, world=2, speed=2.0)
    backend.step(1)  # without forward() in between
    backend.step(1)
    assert backend.solver.takeovers.numpy().tolist() == [0, 1, 1]


def test_a_world_that_went_non_finite_is_forgotten_and_taken_over(backend):
    data = backend.entities["robot"]
    data.joint_effort_target[:, 0] = 6.0
    backend.step(1)
    data.joint_effort_target[1, 0] = float("nan")
    backend.step(2)
    assert backend.non_finite.tolist() == [False, True, False]
    assert backend.solver.takeovers.numpy().tolist() == [0, 1, 0]
    assert (backend.solver.last_effort.numpy()[:, 0] != 0.0).tolist() == [True, False, True]


def test_a_reset_by_mask_leaves_the_memory_of_the_others(backend):
    assert "engine.last_effort" in check_masked_reset(backend, backend.reset, num_envs=3)
    backend.entities["robot"].joint_effort_target[:, 0] = 6.0
    backend.step(2)
    backend.reset(torch.tensor([True, False, True]))
    assert (backend.solver.last_effort.numpy()[:, 0] != 0.0).tolist() == [False, True, False]


def test_a_checkpoint_holds_its_memory(backend, make_cart_pole):
    backend.entities["robot"].joint_effort_target[:, 0] = 6.0
    backend.step(3)
    saved = backend.state_dict()
    assert any(name.endswith("last_effort") for name in saved)
    backend.step(2)
    expected = backend.state_dict()

    other = make_cart_pole(solver=GliderCfg(top_speed=5.0))
    other.load_state_dict(saved)
    other.step(2)
    assert all(torch.equal(expected[name], value) for name, value in other.state_dict().items())


def test_health_reports_what_overflowed_in_an_early_step(backend):
    push(backend, world=1, speed=9.0)
    backend.step(1)
    for _ in range(3):
        backend.step(1)
    assert backend.health().overflows == {"speed": "1 of 3 worlds, raise physics.solver.top_speed"}
    assert backend.health().ok


def test_a_strict_solver_makes_an_overflow_an_error(make_cart_pole):
    backend = make_cart_pole(solver=GliderCfg(top_speed=5.0, strict=True))
    push(backend, world=0, speed=9.0)
    backend.step(1)
    with pytest.raises(CapacityError, match="speed: 1 of 3 worlds"):
        backend.health()


def test_only_properties_that_it_follows_may_change(backend):
    before = backend.state_dict()
    backend.entities["robot"].body_mass.mul_(2.0)
    with pytest.raises(LabError, match="Glider, cannot change body_mass of a built model"):
        backend.notify("robot", "joint_friction", "body_mass")
    assert backend.solver.notices == []
    backend.entities["robot"].body_mass.copy_(before["entities.robot.body_mass"])
    backend.notify("robot", "joint_friction")
    assert backend.solver.notices == [int(newton.ModelFlags.JOINT_DOF_FORCE_PROPERTIES)]


def test_what_it_does_not_offer_is_refused(backend):
    with pytest.raises(ConfigError, match="Glider does not offer body_qdd"):
        backend.solver.observe({"body_qdd"})
    with pytest.raises(ConfigError, match="Glider"):
        backend.solver.measure_contacts()


def test_a_class_with_newtons_interface_needs_no_more_than_its_name(make_cart_pole):
    backend = make_cart_pole(solver=NewtonSolverCfg(name=Ballast, options={"gain": 3.0}, contacts=False))
    assert backend.solver.inner.gain == 3.0
    before = backend.entities["robot"].joint_pos.clone()
    backend.step(3)
    assert torch.equal(backend.entities["robot"].joint_pos, before)
    assert "(Ballast)" in backend.description
