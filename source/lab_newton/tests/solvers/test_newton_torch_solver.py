"""A solver written in torch: a cart-pole in closed form, with a memory, in both front ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import newton
import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg, make_env
from lab_core.errors import ConfigError, LabError
from lab_core.managers import EventTermCfg, TermError
from lab_core.physics import Fingerprint, differences
from lab_core.scene import SceneCfg
from lab_core.testing import analytic_cartpole_env_cfg, check_masked_reset
from lab_newton import NewtonCfg, SolverCfg
from lab_newton.backend import NewtonBackend
from lab_newton.solvers import Solver
from lab_warp import capture_torch

DT = 1.0 / 120.0
pytestmark = pytest.mark.parametrize("device", ["cpu"], indirect=True)
CART_MASS = POLE_MASS = 1.0
POLE_COM, POLE_INERTIA = 0.47, 0.304533333
"""Distance from the hinge [m], and about the hinge [kg m^2]: those of the model file."""
CART_POLE = Path(__file__).parents[1] / "newton_assets" / "cart_pole.xml"


@wp.kernel(enable_backward=False)
def forget(
    mask: wp.array[wp.bool],
    by: wp.int32,
    last_effort: wp.array2d[wp.float32],
    age: wp.array[wp.int64],
    takeovers: wp.array[wp.int64],
):
    world = wp.tid()
    if mask[world]:
        age[world] = wp.int64(0)
        last_effort[world, 0] = 0.0
        last_effort[world, 1] = 0.0
        takeovers[world] = takeovers[world] + wp.int64(by)


class CartPole(Solver):
    """M(q) qdd = effort - bias(q, qd), semi-implicit Euler; the effort is the mean of the latest two since somebody
    else wrote the state."""

    name = "cart-pole in torch"

    def __init__(self, cfg: CartPoleCfg, model: newton.Model) -> None:
        self._cfg, self._model = cfg, model
        worlds = model.world_count
        self.last_effort = torch.zeros(worlds, 2)
        self.age = torch.zeros(worlds, dtype=torch.int64)
        self.far = torch.zeros(worlds, dtype=torch.bool)
        self.takeovers = torch.zeros(worlds, dtype=torch.int64)
        self._integrate: Callable[..., tuple[torch.Tensor, torch.Tensor]] = integrate
        if cfg.compile_backend is not None:
            self._integrate = torch.compile(integrate, backend=cfg.compile_backend, fullgraph=True)
            self._integrate(*(torch.zeros(worlds, 2) for _ in range(3)), 0.01)

    def check_physics(self, fingerprint: Fingerprint) -> None:
        self.checked = fingerprint
        if self._cfg.learned and (changed := differences(fingerprint, self._cfg.learned)):
            raise ConfigError(f"{self.name} learned other physics: {'; '.join(changed)}.")

    def step(self, state: newton.State, control: newton.Control, dt: float, observed: bool = False) -> None:
        capture_torch(self._advance, state.joint_q, state.joint_qd, control.joint_f, dt)
        newton.eval_fk(self._model, state.joint_q, state.joint_qd, state)

    def _advance(self, joint_q: wp.array, joint_qd: wp.array, joint_f: wp.array, dt: float) -> None:
        q, qd, effort = (wp.to_torch(array).view(-1, 2) for array in (joint_q, joint_qd, joint_f))
        before = torch.where((self.age > 0)[:, None], self.last_effort, effort)
        q_next, qd_next = self._integrate(q, qd, 0.5 * (before + effort), dt)
        self.last_effort.copy_(effort)
        q.copy_(q_next)
        qd.copy_(qd_next)
        self.age.add_(1)
        self.far.logical_or_(q_next[:, 0].abs() > self._cfg.rail)

    def take_over(self, state: newton.State, mask: wp.array) -> None:
        self._forget(mask, by=1)

    def reset(self, state: newton.State, mask: wp.array) -> None:
        self._forget(mask, by=0)

    def _forget(self, mask: wp.array, by: int) -> None:
        outputs = [wp.from_torch(x) for x in (self.last_effort, self.age, self.takeovers)]
        wp.launch(forget, dim=len(self.age), inputs=[mask, by], outputs=outputs, device=mask.device)

    def memory(self) -> dict[str, wp.array | torch.Tensor]:
        return {"last_effort": self.last_effort, "age": self.age}

    def overflows(self) -> dict[str, str]:
        worlds = int(self.far.sum())
        self.far.zero_()
        return {"rail": f"{worlds} of {len(self.far)} worlds, raise physics.solver.rail"} if worlds else {}


def integrate(q: torch.Tensor, qd: torch.Tensor, effort: torch.Tensor, dt: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One semi-implicit step of (N, 2) coordinates: cart [m], pole from upright [rad]."""
    angle, rate = q[:, 1], qd[:, 1]
    lever, mass = POLE_MASS * POLE_COM, CART_MASS + POLE_MASS
    coupling = -lever * torch.cos(angle)
    force = effort[:, 0] - lever * torch.sin(angle) * rate**2
    torque = effort[:, 1] + lever * 9.81 * torch.sin(angle)
    acceleration = torch.stack([POLE_INERTIA * force - coupling * torque, mass * torque - coupling * force], dim=-1)
    qd = qd + dt * acceleration / (mass * POLE_INERTIA - coupling**2)[:, None]
    return q + dt * qd, qd


@dataclass(kw_only=True)
class CartPoleCfg(SolverCfg):
    rail: float = 4.0
    compile_backend: Any = None
    learned: dict[str, dict[str, Any]] | None = None

    def build(self, model: newton.Model, physics: NewtonCfg, scene: SceneCfg) -> CartPole:
        return CartPole(self, model)


@pytest.fixture(scope="module")
def shared(make_cart_pole) -> tuple[NewtonBackend, dict[str, torch.Tensor]]:
    backend = make_cart_pole(solver=CartPoleCfg())
    return backend, backend.state_dict()


@pytest.fixture
def backend(shared) -> Iterator[NewtonBackend]:
    backend, fresh = shared
    backend.load_state_dict(fresh)
    backend.health()
    backend.solver.takeovers.zero_()
    yield backend


def swing(backend: NewtonBackend, angle: float = 0.4) -> None:
    backend.entities["robot"].joint_pos[:, 1] = angle
    backend.written.fill_(True)


def test_its_passive_motion_is_that_of_mujoco(backend, cart_pole):
    for each in (backend, cart_pole):
        each.entities["robot"].joint_damping.zero_()
        swing(each)
        each.step(40)
        each.step(20)
    found, expected = (each.entities["robot"] for each in (backend, cart_pole))
    assert (expected.joint_pos[:, 1] - 0.4).abs().min() > 0.5
    torch.testing.assert_close(found.joint_pos, expected.joint_pos, rtol=2e-4, atol=2e-4)
    torch.testing.assert_close(found.body_link_pose_w, expected.body_link_pose_w, rtol=5e-4, atol=5e-4)


def test_every_physics_step_has_one_island_and_nothing_else_has(make_cart_pole):
    backend = make_cart_pole(solver=CartPoleCfg())
    backend.step(4)
    (stage,) = [report for report in backend.capture_context.report() if report.stage.endswith("._step")]
    assert len(stage.islands) == 4 and all("CartPole._advance" in label for label in stage.islands)


def test_a_compiled_function_stays_compiled_in_the_step(make_cart_pole):
    runs: list[int] = []

    def count(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            runs.append(1)
            return graph.forward(*args)

        return run

    backend = make_cart_pole(solver=CartPoleCfg(compile_backend=count))
    before = len(runs)
    for _ in range(3):  # the first captures
        backend.step(2)
    assert len(runs) - before == 6


def test_its_memory_begins_anew_with_a_given_state(backend):
    """After a push the effort acts at once; otherwise it is the mean with the one before."""
    data = backend.entities["robot"]
    data.joint_effort_target[:, 0] = 8.0
    backend.step(1)
    data.joint_effort_target[:, 0] = 0.0
    data.joint_vel[1] = 0.0
    backend.mark_written(torch.tensor([False, True, False]))
    before = data.joint_vel[:, 0].clone()
    backend.step(1)
    assert backend.solver.takeovers.tolist() == [0, 1, 0]
    assert (data.joint_vel[[0, 2], 0] > before[[0, 2]]).all(), "half of the effort before"
    assert data.joint_vel[1].abs().max() < 1e-3
    assert backend.solver.age.tolist() == [2, 1, 2]


def test_tensors_are_its_memory_in_checkpoints_and_resets(backend, make_cart_pole):
    assert {"engine.last_effort", "engine.age"} <= check_masked_reset(backend, backend.reset, num_envs=3)
    backend.entities["robot"].joint_effort_target[:, 0] = torch.tensor([1.0, 2.0, 3.0])
    backend.step(3)
    saved = backend.state_dict()
    backend.step(2)
    expected = backend.state_dict()
    other = make_cart_pole(solver=CartPoleCfg())
    other.load_state_dict(saved)
    other.step(2)
    assert all(torch.equal(expected[name], value) for name, value in other.state_dict().items())


def test_a_broken_world_leaves_its_neighbours_bitwise_alone(backend):
    swing(backend)
    backend.step(2)
    start = backend.state_dict()
    backend.step(3)
    healthy = backend.state_dict()
    backend.load_state_dict(start)
    backend.entities["robot"].joint_effort_target[1, 0] = math.nan
    backend.step(3)
    assert backend.health().non_finite_envs == 1
    for name, value in backend.state_dict().items():
        if value.numel() % 3 == 0:
            rows, expected = (x.reshape(3, -1)[[0, 2]] for x in (value, healthy[name]))
            assert torch.equal(rows, expected), name
    assert backend.solver.age.tolist() == [5, 0, 5]
    assert backend.solver.last_effort.isfinite().all()


def test_health_tells_its_overflows(backend):
    backend.entities["robot"].joint_pos[2, 0] = 4.5
    backend.written.fill_(True)
    backend.step(1)
    backend.step(1)
    assert backend.health().overflows == {"rail": "1 of 3 worlds, raise physics.solver.rail"}


def test_it_may_refuse_physics_field_by_field(make_cart_pole, backend):
    learned = backend.fingerprint()
    assert backend.solver.checked == learned
    make_cart_pole(solver=CartPoleCfg(learned=learned), num_envs=1)
    with pytest.raises(ConfigError, match=r"timing.dt: 0.01, was 0.0083.*; forces.gravity: \[0.0, 0.0, -1.6\], was"):
        make_cart_pole(solver=CartPoleCfg(learned=learned), dt=0.01, gravity=(0.0, 0.0, -1.6))


def test_properties_and_forces_that_it_cannot_follow_are_refused(backend):
    with pytest.raises(LabError, match="cart-pole in torch, cannot change body_mass"):
        backend.notify("robot", "body_mass")
    backend.step(1)
    assert backend.health().ok
    backend.entities["robot"].body_wrench_w[1, 2, 0] = 1e-3
    backend.step(1)
    backend.entities["robot"].body_wrench_w.zero_()
    backend.step(1)
    with pytest.raises(LabError, match="body_wrench_w was written in 1 of 3 environments, first in 1. The solver"):
        backend.health()
    assert backend.health().ok


# -- in an environment ------------------------------------------------------------------------------------------------


def env_cfg(**events: EventTermCfg) -> ManagerBasedRLEnvCfg:
    cfg = analytic_cartpole_env_cfg(num_envs=4)
    cfg.physics = NewtonCfg(dt=DT, solver=CartPoleCfg())
    cfg.scene.entities["robot"] = replace(cfg.scene.entities["robot"], asset=str(CART_POLE))
    cfg.scene.ground = None
    cfg.events |= events
    return cfg


def kick(env, mask: torch.Tensor) -> None:
    """Gives the pole 2 rad/s."""
    robot = env.scene["robot"]
    robot.write_joint_state(robot.data.joint_pos, robot.data.joint_vel + torch.tensor([0.0, 2.0]), mask)


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_resets_and_pushes_of_an_environment_reach_it(frontend, device):
    push = EventTermCfg(func=kick, mode="interval", interval_range_s=(0.1, 0.1), is_global_time=True)
    env = make_env(env_cfg(push=push), device, frontend)
    try:
        env.reset()
        solver = env.physics.solver
        taken, ages = [], []
        for _ in range(14):  # 6 steps of 1/60 s are 0.1 s
            solver.takeovers.zero_()
            env.step(torch.zeros(4, 1))
            taken.append(solver.takeovers.tolist())
            ages.append(solver.age.tolist())
        pushed = [i for i, counts in enumerate(taken) if any(counts)]
        assert len(pushed) == 2 and pushed[1] - pushed[0] == 6
        assert all(taken[i] == [1, 1, 1, 1] and ages[i] == [0, 0, 0, 0] for i in pushed)
        assert ages[pushed[0] + 2] == [4, 4, 4, 4]

        solver.takeovers.zero_()
        env.reset(mask=[1, 3])
        assert solver.age.tolist()[1] == solver.age.tolist()[3] == 0 != solver.age.tolist()[0]
        assert solver.takeovers.tolist() == [0, 1, 0, 1]
        assert env.health().ok
    finally:
        env.close()


@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_an_event_that_pushes_with_forces_is_refused_by_name(frontend, device):
    params = {"force_range": (-1.0, 1.0), "torque_range": (0.0, 0.0)}
    wind = EventTermCfg(func=mdp.apply_external_force_torque, mode="reset", params=params)
    with pytest.raises(
        TermError,
        match=r"event term 'wind' \(apply_external_force_torque\) writes body_wrench_w, which has no effect in these "
        r"physics, newton \(cart-pole in torch\)",
    ):
        make_env(env_cfg(wind=wind), device, frontend)
