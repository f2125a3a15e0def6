"""Contacts of a recorded ant: read, learned from, taken away, and found again by the model that moves by itself."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from rich.console import Console

from lab_core.cli import main
from lab_core.datasets import DatasetCfg, DatasetError, RecordedDataset
from lab_core.errors import ConfigError, LabError
from lab_core.recorder import RecorderCfg, RecorderManager, physics_step_terms
from lab_core.registry import get_task, task_ids
from lab_core.sensors import ContactSetCfg
from lab_newton import FitCfg
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd import NeRDModel, WrenchReconstruction, load_model
from lab_rl.nerd.fit import Fit, FitData, load_fit_data
from lab_rl.nerd.metrics import OneStepEvaluator
from lab_rl.nerd.physics_steps import PhysicsSteps, read_physics_steps
from lab_rl.nerd.replays import choose_starts, recorded_rollouts
from lab_rl.nerd.report import describe_ablations, describe_replays, describe_wrenches
from lab_rl.nerd.solver_wrenches import SolverWrenches, solver_wrenches
from lab_rl.nerd.teacher import find_teacher
from lab_rl.nerd.trainer import Trainer, prepare_model
from lab_rl.nerd.wrenches import choose_steps, friction_of, measure_wrenches, touched_points
from lab_rl.runs.folder import RunFolder

pytestmark = pytest.mark.skipif("Lab-Ant" not in task_ids(), reason="lab_tasks is not installed")
CPU = torch.device("cpu")
TOKENS = "substep_contacts/contacts/tokens"


def record(folder: Path, label: str = "exploring", scale: float = 1.0, **sensor) -> RecordedDataset:
    """Eight ants for 24 steps of the environment, 48 of the physics."""
    cfg = get_task("Lab-Ant").make_env_cfg()
    cfg.scene.num_envs, cfg.episode_length_s = 8, 24 / 60
    cfg.scene.sensors = {"contacts": ContactSetCfg(**sensor)} if sensor else {}
    cfg.observations["policy"].terms["feet_body_forces"] = None
    cfg.terminations = {"time_out": cfg.terminations["time_out"]}
    cfg.rewards, cfg.metrics = {}, {}
    env = cfg.build("cpu")
    dataset = DatasetCfg(folder=folder, label=label, env_name="Lab-Ant")
    env.set_recorder(RecorderManager(RecorderCfg(terms=physics_step_terms(cfg), dataset=dataset), env))
    generator = torch.Generator().manual_seed(len(label))
    with torch.no_grad():
        for _ in range(25):
            env.step(scale * (2.0 * torch.rand(8, 8, generator=generator) - 1.0))
    env.close()
    return RecordedDataset(folder)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> list[RecordedDataset]:
    folder = tmp_path_factory.mktemp("ants")
    search = {"distance": 0.3, "capacity": 32}
    return [record(folder / "exploring", **search), record(folder / "resting", "resting", 0.0, **search)]


def make_cfg(**changes) -> FitCfg:
    settings = {"options": {"hidden": [64, 64], "contact_channels": 13}, "updates": 300, "batch_size": 128}
    return FitCfg(**{**settings, "warmup_updates": 5, "holdout": 0.25, "eval_interval": 100, **changes})


@pytest.fixture(scope="module")
def data(sources) -> FitData:
    return load_fit_data(sources, make_cfg())


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory) -> Fit:
    fit = Fit(make_cfg(), data, RunFolder.create(tmp_path_factory.mktemp("logs")), CPU)
    fit.run_all(Console(quiet=True), lambda update, line: None)
    return fit


def read(*sources: RecordedDataset) -> PhysicsSteps:
    teacher = find_teacher(sources)
    return read_physics_steps(sources, teacher.entity, teacher.layout.joint_names, True, with_contacts=True)


# Reading --------------------------------------------------------------------------------------------------------------


def test_contacts_come_back_in_as_few_places_as_they_need(sources):
    steps, tokens = read(*sources), []
    for source in sources:
        for index, info in enumerate(source.infos):
            tokens.append(source.array(index, TOKENS, slice(0, info.length)).reshape(-1, 32, 15))
    tokens = torch.from_numpy(np.concatenate(tokens))
    valid = tokens[..., 0] > 0.5
    width = int(valid.sum(1).max())
    assert steps.contact_geometry.shape == (len(tokens), width, 13) and 4 <= width < 32
    assert steps.contact_owner.dtype == torch.uint8 and steps.contact_valid.dtype == torch.bool
    assert torch.equal(steps.contact_valid.sum(1), valid.sum(1))
    assert torch.equal(steps.contact_geometry[steps.contact_valid], tokens[valid][:, 2:])
    assert torch.equal(steps.contact_owner[steps.contact_valid].float(), tokens[valid][:, 1])
    assert not steps.contact_geometry[~steps.contact_valid].any() and steps.incomplete == 0
    assert steps.origin.shape == (len(tokens), 3)
    assert len(steps.select(steps.episode != 0).contact_owner) == int((steps.episode != 0).sum())


def test_a_contact_lies_where_the_step_begins(sources):
    """The gap of the next step is the present one, closed by the speed at which it closes then."""
    steps = read(sources[1])
    gap, speed = (
        steps.contact_geometry[..., 9],
        (steps.contact_geometry[..., 3:6] * steps.contact_geometry[..., 10:]).sum(-1),
    )
    pairs = steps.joins[:-1] & (steps.contact_valid[:-1] == steps.contact_valid[1:]).all(1)
    pairs &= (steps.contact_owner[:-1] == steps.contact_owner[1:]).all(1)
    both = steps.contact_valid[:-1][pairs]
    change = (gap[1:] - gap[:-1])[pairs][both]
    expected = speed[1:][pairs][both] / 120  # the rule of poses: that at the end of the step
    assert len(change) > 500 and (change - expected).abs().median() < 0.1 * change.abs().median()


def edit(source: RecordedDataset, target: Path, change) -> RecordedDataset:
    (path,) = (path for path, _ in source.files)
    target.write_bytes(path.read_bytes())
    with h5py.File(target, "r+") as file:
        change(file["data"])
    return RecordedDataset(target)


def test_steps_with_contacts_that_found_no_place_are_left_out_and_counted(sources, tmp_path):
    def crowd(episodes):
        episodes["demo_0/substep_contacts/contacts/excess"][2, 1] = 3.0

    whole, found = read(sources[0]), read(edit(sources[0], tmp_path / "a.hdf5", crowd))
    assert found.incomplete == 1 and len(found) == len(whole) - 1
    kept = torch.arange(len(whole)) != 5
    assert torch.equal(found.q, whole.q[kept]) and torch.equal(found.contact_geometry, whole.contact_geometry[kept])
    assert whole.joins[4] and not found.joins[4] and torch.equal(found.joins[5:], whole.joins[6:])


def test_a_recording_without_a_complete_step_is_refused(sources, tmp_path):
    def crowd(episodes):
        for episode in episodes.values():
            episode["substep_contacts/contacts/excess"][:] = 1.0

    with pytest.raises(DatasetError, match=r"400 have more contacts than the sensor has places; raise its capacity"):
        read(edit(sources[0], tmp_path / "a.hdf5", crowd))


def test_a_recording_that_names_no_physics_is_refused(sources, tmp_path):
    def forget(episodes):
        del episodes.attrs["physics_fingerprint"]

    with pytest.raises(DatasetError, match=r"a\.hdf5 does not name the physics it was recorded with, field by field"):
        find_teacher([edit(sources[0], tmp_path / "a.hdf5", forget)])


def test_contacts_of_a_part_that_is_not_there_are_refused(sources, tmp_path):
    def move(episodes):
        episodes[f"demo_0/{TOKENS}"][0, 0, 0, :2] = (1.0, 9.0)

    with pytest.raises(DatasetError, match="contacts of part 9; the robot has 9"):
        read(edit(sources[0], tmp_path / "a.hdf5", move))


def test_recordings_without_contacts_or_with_others_are_refused(sources, tmp_path):
    plain = record(tmp_path / "plain")
    with pytest.raises(DatasetError, match="plain holds no contacts, .*ContactSetCfg"):
        load_fit_data([plain], make_cfg())
    with pytest.raises(DatasetError, match=r"plain holds no contacts, the first recording contacts up to 0\.3 m"):
        find_teacher([sources[0], plain])
    assert load_fit_data([plain], make_cfg(options={})).train.contacts(torch.tensor([0])) is None


# Learning -------------------------------------------------------------------------------------------------------------


def test_the_scale_of_contacts_is_that_of_valid_ones(data):
    model = NeRDModel(data.teacher.layout, "MLP", make_cfg().options, data.teacher.search)
    prepare_model(model, data.train)
    valid = data.train.contact_geometry[data.train.contact_valid]
    torch.testing.assert_close(model.contacts.mean, valid.mean(0), rtol=1e-3, atol=1e-4)
    empty = dataclasses.replace(data.train, contact_valid=torch.zeros_like(data.train.contact_valid))
    with pytest.raises(LabError, match="there is not one in the steps to train on"):
        prepare_model(model, empty)


def test_a_fit_sees_contacts_and_its_file_says_which(fitted):
    model, known = load_model(fitted.run.path / "model.nerd")
    assert model.search == ContactSearch(0.3, 32) and known.extra["incomplete"] == 0
    assert torch.equal(model.contacts.mean, fitted.trainer.model.contacts.mean) and model.contacts.mean.any()
    assert "contacts" in fitted.summary()
    assert fitted.evaluator(model) == fitted.evaluator(fitted.trainer.averaged)
    evaluate = OneStepEvaluator(fitted.data.train, 1, torch.tensor(known.extra["pose_scale"]))
    seen, removed = evaluate(model), evaluate(model, without="contacts")
    assert seen.velocity < 0.5 and removed.velocity > 1.5 * seen.velocity and removed.scale == seen.scale
    lines = describe_ablations({"all": {"all": seen, "contacts": removed}})
    assert lines[-3].endswith("| without contacts |")
    assert f"| all | {seen.velocity_rmse:.3g} | {removed.velocity_rmse:.3g} (" in lines[-1]


def test_wrenches_follow_from_predictions_with_recorded_contacts(fitted, data):
    model, _ = load_model(fitted.run.path / "model.nerd")
    friction = friction_of(data.teacher.fingerprint)
    assert friction == max(
        shape["friction"]
        for part in (*data.teacher.fingerprint["materials"]["robot"].values(),
                     data.teacher.fingerprint["materials"]["ground"])
        for shape in part
    )  # fmt: skip
    reconstruction = WrenchReconstruction(data.teacher.layout, data.teacher.robot, friction)
    chosen = choose_steps(data.held_out, 1, 12, seed=0)
    solver = wrenches_of(data, torch.cat([rows[:, -1] for rows in chosen.values()]), reconstruction)
    figures = measure_wrenches(model, data.held_out, chosen, reconstruction, solver)
    assert set(figures) == {"exploring", "resting"} and all(figure.count == 12 for figure in figures.values())
    for figure in figures.values():
        wrong, exact = figure.errors["none"], figure.errors["all velocities"]
        assert list(figure.errors)[1:3] == ["base linear velocity", "base angular velocity"]
        assert exact.relative_force < 0.1 and wrong.force > 2.0 * exact.force
        assert figure.residual < 5e-5 and 0.0 < figure.unexplained[1] < figure.unexplained[0] and figure.off < 1e-2
    lines = describe_wrenches(figures, friction, "wrenches.png")
    assert lines.count("### resting, 12 steps") == 1 and sum(line.startswith("| none |") for line in lines) == 2
    points = touched_points(data.held_out, torch.arange(len(data.held_out)), floating=True)
    gap, valid = data.held_out.contact_geometry[..., 9], data.held_out.contact_valid
    assert torch.equal(points.active.sum(1), (valid & (gap <= 0.0)).sum(1)) and points.active.any()
    assert points.active.shape[1] == int(points.active.sum(1).max())


def wrenches_of(data: FitData, rows: torch.Tensor, reconstruction: WrenchReconstruction) -> SolverWrenches:
    teacher, parts = data.teacher, reconstruction.part_names
    return solver_wrenches(teacher.cfg, data.held_out, rows, teacher.layout, teacher.entity, parts, "cpu")


def test_the_solver_makes_a_recorded_step_again_and_tells_its_wrenches(data):
    """Where nothing is touched they follow from the motion exactly."""
    steps, teacher = data.held_out, data.teacher
    reconstruction = WrenchReconstruction(teacher.layout, teacher.robot, friction_of(teacher.fingerprint))
    points = touched_points(steps, torch.arange(len(steps)), floating=True)
    limits = teacher.robot.limits.float()
    inside = ((steps.q[:, 7:] > limits[:, 0] + 0.02) & (steps.q[:, 7:] < limits[:, 1] - 0.02)).all(1)
    rows = (~points.active.any(1) & inside).nonzero()[:, 0][:16]
    assert len(rows) == 16
    found = wrenches_of(data, rows, reconstruction)
    assert found.off.max() < 1e-4
    nothing = touched_points(steps, rows, floating=True)
    expected = reconstruction(*(value[rows] for value in (steps.q, steps.qd, steps.qd_next, steps.effort)), nothing)
    torch.testing.assert_close(found.force, expected.force.float(), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(found.torque, expected.torque.float(), rtol=1e-3, atol=1e-3)
    assert found.force[:, 1:].norm(dim=-1).max() > 1.0 and torch.equal(found.select(slice(3, 5)).off, found.off[3:5])


@pytest.mark.parametrize("changes", [{"horizon": 3}, {"state_noise": 0.1}], ids=["rollouts", "noise"])
def test_a_fit_with_contacts_goes_on_bit_for_bit(data, changes, assert_same):
    options = {"context": 3, "size": 16, "depth": 1, "heads": 2, "contact_channels": 13}
    cfg = make_cfg(network="VectorNeRD", options=options, batch_size=16, **changes)

    def make() -> Trainer:
        torch.manual_seed(0)
        model = NeRDModel(data.teacher.layout, cfg.network, cfg.options, data.teacher.search)
        return Trainer(cfg, model, prepare_model(model, data.train), data.train)

    whole, second = make(), make()
    for _ in range(3):
        whole.update()
    second.load_state_dict(copy.deepcopy(whole.state_dict()))
    second.sampler.load_state_dict(whole.sampler.state_dict())
    losses = [(trainer.update(), trainer.update()) for trainer in (whole, second)]
    assert_same(losses[0], losses[1])
    assert torch.stack(losses[0]).isfinite().all()


def test_noise_is_of_the_state_and_not_of_efforts(make_trainer):
    trainer = make_trainer(state_noise=0.5)
    noise = trainer._draw_noise(torch.Size((4000, 1, 6)))
    kinds = trainer.model.representation.feature_kinds
    scales = zip(kinds, trainer.model.inputs.std.tolist(), strict=True)
    expected = [0.0 if kind == "effort" else 0.5 * std for kind, std in scales]
    assert noise.std(dim=(0, 1)).tolist() == pytest.approx(expected, rel=0.06)
    assert make_trainer()._noise is None


def test_noise_is_added_to_what_the_network_sees(make_trainer):
    trainer = make_trainer(state_noise=0.5)
    rows = trainer.sampler.draw(8)
    plain = trainer.squared_errors(rows)
    assert torch.equal(trainer.squared_errors(rows, torch.zeros(8, 1, 6)), plain)
    assert not torch.allclose(trainer.squared_errors(rows, torch.full((8, 1, 6), 0.1)), plain)


@pytest.mark.parametrize("changes", [{"state_noise": -1.0}, {"options": {"contact_channels": 7}}])
def test_impossible_settings_are_refused_by_name(changes):
    with pytest.raises(ConfigError, match=r"fit\.(state_noise: got -1\.0, expected|options\.contact_channels must be)"):
        make_cfg(**changes).check()


# Rollouts beside recordings -------------------------------------------------------------------------------------------


def test_every_regime_begins_where_enough_steps_follow(data):
    starts, lengths = choose_starts(data.held_out, [4, 12, 1000], 6, seed=3)
    assert data.held_out.regime[starts].tolist() == [0] * 3 + [1] * 3 and lengths.tolist() == [12] * 6
    for start in starts.tolist():
        assert data.held_out.joins[start : start + 11].all()
    with pytest.raises(DatasetError, match="No 1000 recorded physics steps follow"):
        choose_starts(data.held_out, [1000], 6, seed=3)


def test_rollouts_find_contacts_themselves_and_begin_like_one_step(fitted, data):
    """After one step the error is that of one step: the contacts that it finds are those that were recorded."""
    dt, model = data.teacher.layout.dt, fitted.run.path / "model.nerd"
    times = (dt, 10 * dt)
    teacher = data.teacher
    errors = recorded_rollouts(teacher.cfg, model, data.held_out, teacher.layout, "robot", times, 8, "cpu")
    starts, _ = choose_starts(data.held_out, [1, 10], 8, 0)
    one = data.held_out
    learned, _ = load_model(model)
    rows = starts[:, None]
    features = learned.representation.features(one.q[rows], one.qd[rows], one.effort[rows])
    change = learned.predict(features, one.contacts(rows))
    q, _ = learned.representation.apply_change(one.q[starts], one.qd[starts], change)
    off = learned.representation.pose_change(one.q_next[starts], q)
    torch.testing.assert_close(errors.errors[0, :, 0], off[:, :3].norm(dim=1), rtol=0.02, atol=3e-6)
    torch.testing.assert_close(errors.errors[0, :, 2], off[:, 6:].square().mean(1).sqrt(), rtol=0.02, atol=3e-6)
    first, last = (errors.at("exploring", time) for time in errors.times)
    assert first.count == last.count == 4 and last.diverged == 0
    assert 0.0 < first.root_position < last.root_position and first.joints < last.joints
    lines = describe_replays(errors, "replays.png")
    assert len(lines) == 7 + 2 * 2 + 2 and lines[-1].endswith("(replays.png)")


def test_a_report_tells_regimes_contacts_and_rollouts(fitted, sources, tmp_path, capsys):
    command = ["nerd", "eval", str(fitted.run.path), "--num-envs", "4", "--device", "cpu", "--output", str(tmp_path)]
    assert main(command) == 1 and "sees contacts, and is measured beside recordings" in capsys.readouterr().err
    assert (
        main(
            [
                *command,
                "--seconds",
                "0.05",
                "0.1",
                "--wrench-steps",
                "8",
                "--data",
                *(str(source.path) for source in sources),
            ]
        )
        == 0
    )
    report = (tmp_path / "report.md").read_text()
    assert "held out" in report and "| channel | all | exploring | resting |" in report
    assert "| regime | with everything | without contacts | without efforts | without velocities |" in report
    assert "### resting, 8 steps" in report and (tmp_path / "wrenches.png").exists()
    assert "| resting | 0.1 s |" in report


def test_the_evaluator_ignores_contacts_that_a_model_does_not_see(data):
    model = NeRDModel(data.teacher.layout, "MLP", {"hidden": [8]})
    scale = prepare_model(model, data.train)
    assert OneStepEvaluator(data.held_out, 1, scale)(model).count == len(data.held_out)
