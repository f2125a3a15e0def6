"""Learned models as solvers: stepped, reset by mask, pushed, checkpointed, guarded."""

from __future__ import annotations

from dataclasses import replace

import newton
import pytest
import torch
import warp as wp
from newton.solvers import SolverMuJoCo

from lab_core.errors import ConfigError, LabError
from lab_newton import NeRDSolverCfg
from lab_newton.backend import NewtonBackend
from lab_newton.nerd import RobotLayout, save_model
from lab_newton.nerd.newton_solver import SolverNeRD

pytestmark = pytest.mark.parametrize("device", ["cpu"], indirect=True)
SMALL = {"context": 4, "size": 16, "depth": 1, "heads": 2}
NETWORKS = {"MLP": {"hidden": [16]}, "VectorNeRD": SMALL, "ParallelNeRD": SMALL}


@pytest.fixture
def make_file(tmp_path, make_model, shared_cart_pole, shared_rover):
    def make(layout: RobotLayout, network: str = "VectorNeRD", fingerprint=None, **options) -> str:
        model = make_model(layout, network, **(NETWORKS[network] | options))
        model.changes.std.mul_(0.1)
        path = tmp_path / f"{network}.nerd"
        teacher, _ = shared_rover if layout.floating else shared_cart_pole
        save_model(path, model, teacher.fingerprint() if fingerprint is None else fingerprint)
        return str(path)

    return make


@pytest.fixture(params=["cart_pole", "rover"])
def make_learned(request, make_file, make_cart_pole, make_rover, cart_pole_layout, rover_layout):
    """Builds worlds that a network moves: ``make(network, num_envs)``."""

    def make(network: str = "VectorNeRD", num_envs: int = 3, **solver) -> NewtonBackend:
        if request.param == "cart_pole":
            return make_cart_pole(num_envs, solver=NeRDSolverCfg(model=make_file(cart_pole_layout, network), **solver))
        layout = replace(rover_layout, continuous=(False, False, False))
        return make_rover(num_envs, solver=NeRDSolverCfg(model=make_file(layout, network), **solver))

    return make


def states(backend: NewtonBackend) -> tuple[torch.Tensor, torch.Tensor]:
    """Copies of poses (N, Q) and velocities (N, V)."""
    rows = (wp.to_torch(x).view(backend.num_envs, -1) for x in (backend._state.joint_q, backend._state.joint_qd))
    q, qd = rows
    return q.clone(), qd.clone()


def efforts(backend: NewtonBackend) -> torch.Tensor:
    """Efforts (N, J) that entered the latest solver step."""
    rows = wp.to_torch(backend._control.joint_f).view(backend.num_envs, -1)
    return rows[:, -backend.solver.inner.learned.layout.num_joints :].clone()


def drive(backend: NewtonBackend, steps: int, seed: int = 0, skip=()) -> list[tuple[torch.Tensor, ...]]:
    """Steps with random targets; returns states and efforts of the beginning of each step, and what it led to."""
    generator = torch.Generator().manual_seed(seed)
    data, seen = backend.entities["robot"], []
    for _ in range(steps):
        data.joint_effort_target.copy_(torch.randn(1, data.joint_effort_target.shape[1], generator=generator))
        before = states(backend)
        backend.step(1)
        seen.append((*before, efforts(backend), *states(backend)))
    return seen


def mark(backend: NewtonBackend, *worlds: int) -> torch.Tensor:
    mask = torch.zeros(backend.num_envs, dtype=torch.bool)
    mask[list(worlds)] = True
    return mask


@pytest.mark.parametrize("network", NETWORKS)
def test_a_step_is_what_the_model_says_of_the_latest_frames(make_learned, network, monkeypatch, device):
    monkeypatch.setattr(SolverMuJoCo, "step", None)
    backend = make_learned(network)
    model = backend.solver.inner.learned
    representation, context = model.representation, model.network.context
    seen = drive(backend, 9)
    frames = torch.stack([representation.features(q, qd, effort) for q, qd, effort, _, _ in seen], dim=1)
    for step, (q, qd, _, q_next, qd_next) in enumerate(seen):
        change = model.predict(frames[:, max(0, step + 1 - context) : step + 1])
        expected = representation.apply_change(q, qd, change)
        torch.testing.assert_close(q_next, expected[0], rtol=0.0, atol=1e-6)
        torch.testing.assert_close(qd_next, expected[1], rtol=0.0, atol=1e-6)
        assert not torch.equal(q, q_next)


def test_bodies_are_where_the_joints_put_them(make_learned, device):
    backend = make_learned()
    drive(backend, 3)
    state, expected = backend._state, backend._model.state()
    newton.eval_fk(backend._model, state.joint_q, state.joint_qd, expected)
    assert (state.body_q.numpy() == expected.body_q.numpy()).all()
    assert (state.body_qd.numpy() == expected.body_qd.numpy()).all()


def test_efforts_are_computed_anew_for_each_of_several_physics_steps(make_learned, monkeypatch, device):
    backend, calls = make_learned(), []
    advance = SolverNeRD.advance
    monkeypatch.setattr(SolverNeRD, "advance", lambda *args, **kwargs: (calls.append(1), advance(*args, **kwargs)))
    backend.entities["robot"].joint_effort_target.fill_(1.0)
    backend.step(4)
    (report,) = [stage for stage in backend.capture_context.report() if stage.stage.endswith("_step")]
    assert len(calls) == 4 and len(report.islands) == 4
    backend.step(4)
    assert len(calls) == 4  # a replay


def test_a_push_and_a_reset_forget_the_history_of_their_worlds_only(make_learned, device):
    backend = make_learned()
    history = backend.solver.inner.history
    drive(backend, 3)
    backend.entities["robot"].joint_vel[1] += 0.5
    backend.mark_written(mark(backend, 1))
    backend.step(1)
    assert history.length.tolist() == [4, 1, 4]
    backend.reset(mark(backend, 2))
    assert history.length.tolist() == [4, 1, 0]


@pytest.mark.parametrize("network", ["VectorNeRD", "ParallelNeRD"])
def test_a_world_that_was_reset_is_like_a_new_one_and_the_others_like_before(make_learned, network, device):
    backend = make_learned(network)
    fresh = backend.state_dict()
    undisturbed = drive(backend, 8)
    alone = make_learned(network, num_envs=1)
    expected = drive(alone, 5, seed=1)

    backend.load_state_dict(fresh)
    drive(backend, 3)
    data = backend.entities["robot"]
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        torch.randn(1, data.joint_effort_target.shape[1], generator=generator)
    other = torch.Generator().manual_seed(1)
    mask = mark(backend, 1)
    backend.reset(mask)
    backend.write_default_state(mask)
    backend.mark_written(mask)
    backend.forward()
    for step in range(5):
        targets = [torch.randn(1, data.joint_effort_target.shape[1], generator=g) for g in (generator, other)]
        data.joint_effort_target.copy_(targets[0])
        data.joint_effort_target[1] = targets[1][0]
        backend.step(1)
        q, qd = states(backend)
        for row in (0, 2):
            assert torch.equal(q[row], undisturbed[3 + step][3][row])
            assert torch.equal(qd[row], undisturbed[3 + step][4][row])
        torch.testing.assert_close(q[1], expected[step][3][0], rtol=0.0, atol=1e-6)
        torch.testing.assert_close(qd[1], expected[step][4][0], rtol=0.0, atol=1e-6)


def test_a_world_that_goes_non_finite_is_put_back_and_touches_no_other(make_learned, device):
    backend = make_learned()
    fresh = backend.state_dict()
    undisturbed = drive(backend, 6)
    backend.load_state_dict(fresh)
    drive(backend, 2)
    generator = torch.Generator().manual_seed(0)
    data = backend.entities["robot"]
    for step in range(6):
        targets = torch.randn(1, data.joint_effort_target.shape[1], generator=generator)
        if step < 2:
            continue
        data.joint_effort_target.copy_(targets)
        if step == 2:
            backend.solver.inner.history.tokens[1] = float("nan")
        backend.step(1)
        assert backend.non_finite.tolist() == [False, step == 2, False]
        q, qd = states(backend)
        assert torch.isfinite(q).all() and torch.isfinite(qd).all()
        for row in (0, 2):
            assert torch.equal(q[row], undisturbed[step][3][row]) and torch.equal(qd[row], undisturbed[step][4][row])
    assert backend.health().non_finite_envs == 1
    assert backend.solver.inner.history.length.tolist() == [4, 3, 4]


def test_a_checkpoint_holds_the_history(make_learned, device):
    backend = make_learned()
    drive(backend, 3)
    saved = {name: value.clone() for name, value in backend.state_dict().items()}
    assert "engine.history" in saved and "engine.history_length" in saved
    expected = drive(backend, 3, seed=1)
    other = make_learned()
    other.load_state_dict(saved)
    for one, two in zip(drive(other, 3, seed=1), expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_storage_stays_where_it_is(make_learned, device):
    backend = make_learned()
    history = backend.solver.inner.history

    def places():
        arrays = (backend._state.joint_q, backend._state.joint_qd)
        return [x.data_ptr() for x in (history.tokens, history.length, history.cursor)] + [x.ptr for x in arrays]

    before = places()
    drive(backend, 5)
    backend.reset(mark(backend, 0))
    drive(backend, 5)
    assert places() == before


def test_how_many_worlds_there_are_does_not_matter(make_learned, device):
    one, many = drive(make_learned(num_envs=1), 6), drive(make_learned(num_envs=5), 6)
    for single, several in zip(one, many, strict=True):
        for a, b in zip(single, several, strict=True):
            torch.testing.assert_close(a.expand_as(b), b, rtol=0.0, atol=1e-6)


def test_another_timing_is_refused(make_cart_pole, make_file, cart_pole_layout, device):
    cfg = NeRDSolverCfg(model=make_file(cart_pole_layout))
    with pytest.raises(ConfigError, match="'VectorNeRD.nerd' learned other physics: dt: 0.01, not 0.0083"):
        make_cart_pole(solver=cfg, dt=0.01)
    with pytest.raises(ConfigError, match="physics.substeps is 2"):
        make_cart_pole(solver=cfg, substeps=2)
    make_cart_pole(solver=cfg, dt=(1.0 + 1e-8) / 120.0)


def test_another_robot_is_refused(make_cart_pole, make_file, rover_layout, cart_pole_layout, device):
    with pytest.raises(ConfigError, match="learned other physics: joint_names: .*slider_to_cart.*shoulder"):
        make_cart_pole(solver=NeRDSolverCfg(model=make_file(rover_layout)))
    everywhere = replace(cart_pole_layout, actuated=cart_pole_layout.joint_names)
    with pytest.raises(ConfigError, match="actuated: "):
        make_cart_pole(solver=NeRDSolverCfg(model=make_file(everywhere)))
    with pytest.raises(ConfigError, match="gravity: "):
        make_cart_pole(solver=NeRDSolverCfg(model=make_file(cart_pole_layout)), gravity=(0.0, 0.0, -1.62))
    with pytest.raises(ConfigError, match="none.nerd"):
        make_cart_pole(solver=NeRDSolverCfg(model="none.nerd"))


def test_changed_properties_and_forces_are_refused(make_learned, device):
    backend = make_learned()
    with pytest.raises(LabError, match="NeRD VectorNeRD.nerd, cannot change body_mass of a built model"):
        backend.notify("robot", "body_mass")
    with pytest.raises(ConfigError, match="cannot follow changed physics"):
        backend.solver.notify(int(newton.ModelFlags.SHAPE_PROPERTIES))
    with pytest.raises(ConfigError, match="predicts motion, not forces or accelerations: .*body_parent_f"):
        backend.solver.observe({"body_parent_f"})
    with pytest.raises(ConfigError, match="remove the sensors of contact forces"):
        backend.solver.measure_contacts()


def test_a_wrench_is_refused_and_not_felt(make_learned, device):
    backend = make_learned()
    assert backend.ignored_buffers == {"body_wrench_w"}  # events that write it are refused by name
    fresh = backend.state_dict()
    undisturbed = drive(backend, 3)
    backend.load_state_dict(fresh)
    backend.entities["robot"].body_wrench_w[1] = 5.0
    for one, two in zip(drive(backend, 3), undisturbed, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    message = "body_wrench_w was written in 1 of 3 environments, first in 1. The solver, NeRD VectorNeRD.nerd, feels no"
    with pytest.raises(LabError, match=message):
        backend.health()


def test_how_physics_steps_are_grouped_does_not_matter(make_learned, device):
    """What was learned is a physics step: a decimation is no part of it."""
    single, grouped = make_learned(), make_learned()
    for backend in (single, grouped):
        backend.entities["robot"].joint_effort_target.fill_(1.0)
    for _ in range(2):
        for _ in range(4):
            single.step(1)
        grouped.step(4)
        for one, two in zip(states(single), states(grouped), strict=True):
            assert torch.equal(one, two)


def test_drives_inside_the_solver_are_refused_by_joint(cart_pole, make_file, cart_pole_layout, device):
    model = cart_pole._model
    gains = model.joint_target_kd.numpy()
    model.joint_target_kd.assign([0.0, 2.0] * 3)
    try:
        with pytest.raises(ConfigError, match="drives of its own .* on: cart_to_pole. Let an actuator"):
            SolverNeRD(model, make_file(cart_pole_layout))
    finally:
        model.joint_target_kd.assign(gains)


def test_it_is_a_solver_of_newton(make_learned, device):
    """One state leads to another, and the first stays as it is."""
    backend = make_learned()
    expected = drive(backend, 3)
    model = backend._model
    solver = SolverNeRD(model, backend.solver.inner.learned)
    one, other, control = model.state(), model.state(), model.control()
    for q, qd, effort, q_next, qd_next in expected:
        wp.to_torch(one.joint_q).copy_(q.flatten())
        wp.to_torch(one.joint_qd).copy_(qd.flatten())
        wp.to_torch(control.joint_f).view(3, -1)[:, -effort.shape[1] :] = effort
        solver.step(one, other, control, None, backend.dt)
        assert torch.equal(wp.to_torch(one.joint_q), q.flatten())
        assert torch.equal(wp.to_torch(other.joint_q), q_next.flatten())
        assert torch.equal(wp.to_torch(other.joint_qd), qd_next.flatten())
    assert solver.history.length.tolist() == [3, 3, 3]
    solver.reset(one, world_mask=wp.array([True, False, False, False], dtype=wp.bool))
    assert solver.history.length.tolist() == [0, 3, 3]
    solver.reset(one)
    assert solver.history.length.tolist() == [0, 0, 0]
    with pytest.raises(ConfigError, match="cannot make one of 0.02 s"):
        solver.step(one, other, control, None, 0.02)
    with pytest.raises(ConfigError, match="cannot follow changed physics"):
        solver.notify_model_changed(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)


@pytest.mark.slow
@pytest.mark.parametrize("make_learned", ["rover"], indirect=True)
def test_a_compiled_model_moves_like_another(make_learned, device):
    """The compiled code runs in an island of the captured step, too."""
    eager, compiled = drive(make_learned(), 8), drive(make_learned(runtime="compiled"), 8)
    for one, two in zip(eager, compiled, strict=True):
        for expected, found in zip(one, two, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
