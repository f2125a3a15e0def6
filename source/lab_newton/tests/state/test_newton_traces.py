"""What is traced of the substeps of a step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lab_core.errors import LabError
from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg, SceneCfg
from lab_core.sensors import ContactSensorCfg
from lab_newton import MuJoCoSolverCfg, NewtonCfg
from lab_newton.backend import NewtonBackend
from lab_newton.state.traces import SubstepTraces

N, K = 3, 4
FIELDS = ("applied_effort", "joint_pos", "joint_vel", "root_link_pose_w", "root_com_vel_w")
STIFFNESS, DAMPING, LIMIT = 50.0, 2.0, 8.0
Traces = dict[str, torch.Tensor]


def make(device: torch.device) -> NewtonBackend:
    legs = IdealPDActuatorCfg(joint_names=("hip_.*",), stiffness=STIFFNESS, damping=DAMPING, effort_limit=LIMIT)
    asset = str(Path(__file__).parents[1] / "newton_assets" / "walker.xml")
    walker = ArticulationCfg(asset=asset, init_state=InitialStateCfg(pos=(0.0, 0.0, 0.25)), actuators={"legs": legs})
    scene = SceneCfg(entities={"robot": walker}, sensors={"feet": ContactSensorCfg(history_length=K)})
    return NewtonBackend(NewtonCfg(dt=0.005, solver=MuJoCoSolverCfg(njmax=100, nconmax=24)), scene, N, device)


@pytest.fixture(scope="module")
def shared(device: torch.device) -> tuple[NewtonBackend, dict]:
    backend = make(device)
    return backend, backend.state_dict()


@pytest.fixture
def walkers(shared: tuple[NewtonBackend, dict]) -> NewtonBackend:
    """Three walkers just above the ground."""
    backend, fresh = shared
    backend.load_state_dict(fresh)
    return backend


def trace_all(backend: NewtonBackend) -> Traces:
    traces = {field: backend.trace("robot", field, K) for field in FIELDS}
    return traces | {"net_forces_w": backend.trace("feet", "net_forces_w", K)}


def move(backend: NewtonBackend, traces: Traces, steps: int = 25, substeps: int = K) -> list[Traces]:
    """Steps with random targets, in calls of ``substeps``; returns what was traced of each."""
    data, generator = backend.entities["robot"], torch.Generator().manual_seed(0)
    found = []
    for _ in range(steps):
        data.joint_pos_target.copy_(torch.randn(data.joint_pos.shape, generator=generator) * 0.3)
        for _ in range(K // substeps):
            backend.step(substeps)
        found.append({name: rows.clone() for name, rows in traces.items()})
    return found


def assert_equal(given: list[Traces], expected: list[Traces], is_exact: bool) -> None:
    """On a GPU, sums over contacts are made in any order: to 0.005 in positions in the first steps."""
    for ours, theirs in zip(given, expected, strict=True):
        for name, rows in theirs.items():
            if is_exact:
                assert torch.equal(ours[name], rows), name
    if not is_exact:
        for ours, theirs in zip(given[:5], expected[:5], strict=True):
            torch.testing.assert_close(ours["joint_pos"], theirs["joint_pos"], rtol=0.005, atol=0.005)


def efforts_entered_the_solver(backend: NewtonBackend) -> bool:
    """Whether each traced effort is what the motors' law gives in the state that the substep began with."""
    data, traces = backend.entities["robot"], trace_all(backend)
    generator = torch.Generator().manual_seed(0)
    given, law = [], []
    for _ in range(25):
        data.joint_pos_target.copy_(torch.randn(data.joint_pos.shape, generator=generator) * 0.3)
        before = data.joint_pos.clone()[:, None], data.joint_vel.clone()[:, None]
        backend.step(K)
        position, velocity = (
            torch.cat([first, traces[name][:, :-1]], dim=1)
            for first, name in zip(before, ("joint_pos", "joint_vel"), strict=True)
        )
        effort = STIFFNESS * (data.joint_pos_target[:, None] - position) - DAMPING * velocity
        law.append(effort.clamp(-LIMIT, LIMIT))
        given.append(traces["applied_effort"].clone())
    given, law = torch.stack(given), torch.stack(law)
    assert (given.abs() == LIMIT).any() and (given.abs() < LIMIT).any()
    return torch.allclose(given, law, atol=1e-3)


def test_the_efforts_of_all_substeps_entered_the_solver(walkers):
    assert efforts_entered_the_solver(walkers)


def test_mutation_efforts_copied_behind_the_solver_are_noticed(monkeypatch):
    """Eagerly, with the copy of every substep moved behind the solver, where the efforts of the new state are read."""
    monkeypatch.setenv("LAB_CAPTURE", "0")
    solve, before_solver, substeps = NewtonBackend._solve, SubstepTraces.before_solver, []
    monkeypatch.setattr(SubstepTraces, "before_solver", lambda self, substep, control: substeps.append(substep))

    def late(self: NewtonBackend, is_last: bool) -> None:
        solve(self, is_last)
        self._control.joint_f.zero_()
        for actuators in self._actuators.values():
            actuators.step(self._state, self._control, self.dt)
        before_solver(self._traces, substeps[-1], self._control)

    monkeypatch.setattr(NewtonBackend, "_solve", late)
    assert not efforts_entered_the_solver(make(torch.device("cpu")))


def test_rows_are_the_substeps_in_order(walkers):
    """The last one is the state that the step left, and contact forces are those of the sensor's own history."""
    traces = trace_all(walkers)
    move(walkers, traces, steps=30)
    data, feet = walkers.entities["robot"], walkers.sensors["feet"]
    for field in FIELDS:
        assert torch.equal(traces[field][:, -1], getattr(data, field)), field
    assert torch.equal(traces["net_forces_w"].flip(1), feet.net_forces_w_history)
    assert traces["net_forces_w"].any()
    change = traces["joint_pos"].diff(dim=1)
    torch.testing.assert_close(change, walkers.dt * traces["joint_vel"][:, 1:], rtol=0.0, atol=1e-5)


def test_the_rows_are_the_same_whoever_loops(walkers, shared, device):
    traces = trace_all(walkers)
    expected = move(walkers, traces)
    for substeps in (1, 2):
        walkers.load_state_dict(shared[1])
        assert_equal(move(walkers, traces, substeps=substeps), expected, device.type == "cpu")


def test_a_whole_step_begins_with_the_first_row(walkers):
    """Also behind a part of one."""
    traces = trace_all(walkers)
    walkers.step(1)
    move(walkers, traces, steps=1)
    assert torch.equal(traces["joint_pos"][:, -1], walkers.entities["robot"].joint_pos)


def test_tracing_changes_nothing_and_captured_equals_eager(device, monkeypatch):
    def run(traced: bool) -> tuple[list[Traces], dict[str, torch.Tensor]]:
        backend = make(device)
        move(backend, {}, steps=5)
        found = move(backend, trace_all(backend) if traced else {})
        backend.rebuild()
        found += move(backend, trace_all(backend) if traced else {}, steps=5)
        return found, backend.state_dict()

    captured, end = run(traced=True)
    _, plain = run(traced=False)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager, _ = run(traced=True)
    assert_equal(eager, captured, device.type == "cpu")
    if device.type == "cpu":
        assert end.keys() == plain.keys()
        assert all(torch.equal(end[name], value) for name, value in plain.items())


def test_asking_again_records_nothing_anew(walkers):
    def recordings() -> list[int]:
        return [stage.num_captures for stage in walkers.capture_context.report()]

    first = trace_all(walkers)
    move(walkers, first, steps=1)
    before = recordings()
    again = trace_all(walkers)
    move(walkers, again, steps=1)
    assert all(again[name] is rows for name, rows in first.items())
    assert recordings() == before


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("cat", "joint_pos", K), "unknown entity or sensor 'cat'. Available: feet, robot"),
        (("robot", "mass", K), "quantity of 'robot'.*'mass'"),
        (("feet", "joint_pos", K), "quantity of 'feet'.*'joint_pos'"),
        (("robot", "joint_pos", K + 1), r"asked for with 5 substeps; .* as many as those that there are \(4\)"),
    ],
)
def test_what_cannot_be_traced_is_refused(walkers, request_, message):
    trace_all(walkers)
    with pytest.raises(LabError, match=message):
        walkers.trace(*request_)
