"""Fits in run folders: what is held out, going on from checkpoints, what is left behind and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import shutil
import signal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lab_core.errors import ConfigError, LabError
from lab_newton.nerd import load_model
from lab_rl.nerd.checkpoint import load_checkpoint
from lab_rl.nerd.fit import Fit, held_out_rows
from lab_rl.nerd.metrics import OneStepEvaluator
from lab_rl.processes import Processes
from lab_rl.runs.folder import RunFolder
from lab_rl.runs.progress import read_progress

CPU = torch.device("cpu")
CONSOLE = Console(quiet=True)


@pytest.fixture
def make_fit(tmp_path, make_cfg, make_fit_data):
    """Makes a fit in a new run folder, or in ``run``."""

    def make(run=None, data=None, checkpoint=None, processes=None, start=None, **changes) -> Fit:
        run = RunFolder.create(tmp_path / "logs") if run is None else run
        return Fit(make_cfg(**changes), data or make_fit_data(), run, CPU, processes, checkpoint, start)

    return make


def run_all(fit: Fit):
    return fit.run_all(CONSOLE, lambda update, line: None)


def state_of(fit: Fit):
    return copy.deepcopy((fit.trainer.state_dict(), fit.trainer.sampler.state_dict()))


# Held-out steps -------------------------------------------------------------------------------------------------------


@given(
    lengths=st.lists(st.integers(1, 6), min_size=6, max_size=24),
    labels=st.integers(1, 3),
    share=st.floats(0.0, 0.99),
    seed=st.integers(0, 9),
)
def test_whole_episodes_of_every_regime_are_held_out(lengths, labels, share, seed, make_steps):
    steps = make_steps(lengths, ("swing", "rest", "run")[:labels])
    held_out = held_out_rows(steps, share, seed)
    torch.manual_seed(7)
    assert torch.equal(held_out_rows(steps, share, seed), held_out)
    for episode in range(steps.num_episodes):
        assert len(held_out[steps.episode == episode].unique()) == 1
    for label in range(labels):
        of_label = steps.episode[steps.regime == label].unique()
        count = len(steps.episode[(steps.regime == label) & held_out].unique())
        assert 1 <= count < len(of_label)
        assert abs(count - share * len(of_label)) <= 1.0


def test_the_seed_decides_what_is_held_out(make_steps):
    steps = make_steps((2,) * 40)
    splits = {tuple(held_out_rows(steps, 0.5, seed).tolist()) for seed in range(5)}
    assert len(splits) == 5 and all(sum(split) == 40 for split in splits)


@pytest.mark.parametrize(("regimes", "named"), [(("swing",), "swing"), (("swing", "rest"), "rest")])
def test_a_regime_of_one_episode_is_refused(make_steps, regimes, named):
    steps = make_steps((4,) * (2 * len(regimes) - 1), regimes)
    with pytest.raises(LabError, match=f"1 episode of '{named}': none is left to hold out"):
        held_out_rows(steps, 0.1, 1)


# Going on -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_fit_goes_on_from_its_checkpoint_bit_for_bit(make_fit, assert_same, precision):
    whole = make_fit(precision=precision)
    run_all(whole)
    checkpoint = whole.run.checkpoint(6)
    assert load_checkpoint(checkpoint).update == 6
    second = make_fit(run=whole.run, checkpoint=checkpoint, precision=precision)
    assert second.trainer.update_count == 6
    result = run_all(second)
    assert_same(state_of(second), state_of(whole))
    assert result.update == 12 and not result.interrupted
    stored = load_checkpoint(result.checkpoint)
    assert_same((stored.trainer, stored.samplers), (state_of(whole)[0], [state_of(whole)[1]]))
    rows = read_progress(whole.run.progress)
    assert [row["iteration"] for row in rows] == [4, 8, 12]


def test_a_copied_run_goes_on_in_its_own_folder(make_fit, tmp_path, assert_same):
    first = make_fit()
    run_all(first)
    copied = RunFolder(tmp_path / "elsewhere" / "copy")
    shutil.copytree(first.run.path, copied.path)
    before = {path: path.read_bytes() for path in first.run.path.rglob("*") if path.is_file()}
    second = make_fit(run=copied, checkpoint=copied.latest_checkpoint(), updates=14)
    for name, value in state_of(first)[0]["model"].items():
        assert torch.equal(second.trainer.model.state_dict()[name], value), name
    result = run_all(second)
    assert result.update == second.trainer.update_count == 14
    assert result.checkpoint == copied.checkpoint(14) and load_checkpoint(result.checkpoint).update == 14
    assert [row["iteration"] for row in read_progress(copied.progress)] == [4, 8, 12, 14]
    assert {path: path.read_bytes() for path in before} == before


def test_ctrl_c_ends_with_a_checkpoint_to_go_on_from(make_fit, assert_same):
    whole, first = make_fit(), make_fit()
    run_all(whole)
    result = first.run_all(CONSOLE, lambda update, line: signal.raise_signal(signal.SIGINT))
    assert result.interrupted and result.update == 4 and "--resume" in result.summary()
    assert result.checkpoint == first.run.checkpoint(4)
    second = make_fit(run=first.run, checkpoint=result.checkpoint)
    assert not run_all(second).interrupted
    assert_same(state_of(second), state_of(whole))


def test_ctrl_c_at_the_very_end_is_no_interruption(make_fit):
    def stop_at_the_end(update: int, line: str) -> None:
        if update == 12:
            signal.raise_signal(signal.SIGINT)

    result = make_fit().run_all(CONSOLE, stop_at_the_end)
    assert result.update == 12 and not result.interrupted


# Beginning with a model -----------------------------------------------------------------------------------------------


def test_a_fit_begins_with_a_model_whose_scales_stay(make_fit, make_fit_data, make_steps):
    """It goes on learning, as an autoregressive stage does, in steps that the model was not fitted to."""
    first = run_all(make_fit(updates=200, eval_interval=200, learning_rate=1e-2))
    data = make_fit_data(make_steps(seed=1))
    fit, fresh = make_fit(data=data, start=first.model, horizon=4, updates=20), make_fit(data=data)
    begun, known = load_model(first.model)
    for name, value in begun.state_dict().items():
        assert torch.equal(fit.trainer.model.state_dict()[name], value), name
    assert fit.evaluator(fit.trainer.averaged).scale == first.error.scale != run_all(fresh).error.scale
    before = fit.evaluator(fit.trainer.averaged).velocity
    result = run_all(fit)
    assert result.error.velocity < 0.5 * run_all(make_fit(data=data, updates=20)).error.velocity
    assert result.error.velocity != before and load_model(result.model)[1].extra["began_with"] == known.sha256


def test_a_model_of_another_network_or_robot_is_nothing_to_begin_with(make_fit, make_fit_data):
    start = run_all(make_fit()).model
    with pytest.raises(ConfigError, match=r"MLP \{'hidden': \[16, 16\]\}, and the fit is of MLP \{'hidden': \[8\]\}"):
        make_fit(start=start, options={"hidden": [8]})
    data = make_fit_data()
    for change, message in (
        (
            {"layout": dataclasses.replace(data.teacher.layout, actuated=())},
            "to begin with learned other physics: actuated",
        ),
        ({"fingerprint": {"timing": {"dt": 0.01}}}, "to begin with learned other physics: timing.dt"),
    ):
        other = dataclasses.replace(data, teacher=dataclasses.replace(data.teacher, **change))
        with pytest.raises(ConfigError, match=message):
            make_fit(start=start, data=other)


def test_a_network_that_needs_masses_says_why_there_are_none(make_fit, make_fit_data):
    data = make_fit_data()
    why = "Joints of entity 'robot' have dry friction, whose force does not follow from motion: hip."
    data = dataclasses.replace(data, teacher=dataclasses.replace(data.teacher, no_masses=why))
    with pytest.raises(ConfigError, match=f"ContactImpulses needs the masses of the robot, and there are none: {why}"):
        make_fit(data=data, network="ContactImpulses", options={})


# What is left behind --------------------------------------------------------------------------------------------------


def test_the_model_file_holds_the_average(make_fit):
    fit = make_fit()
    result = run_all(fit)
    model, description = load_model(result.model)
    expected = fit.trainer.averaged.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())
    extra = description.extra
    assert description.fingerprint == fit.data.teacher.fingerprint and extra["updates"] == 12
    pose_scale = torch.tensor(extra["pose_scale"])
    found = OneStepEvaluator(fit.data.held_out, 1, pose_scale)(model)
    assert extra["held_out"] == {found.name: found.all_channels, "velocity": found.velocity, "steps": found.count}
    assert result.error == found


def test_normalisers_know_nothing_of_held_out_steps(make_fit, make_fit_data):
    data = make_fit_data()
    data.held_out.qd_next.mul_(100.0)
    fit, other = make_fit(data=data), make_fit()
    assert fit.trainer.model.changes.digest() == other.trainer.model.changes.digest()


def test_a_loss_that_is_not_finite_ends_the_fit(make_fit):
    fit = make_fit(save_interval=2)

    def spoil(update: int, line: str) -> None:
        fit.trainer.model.network.layers[0].weight.data.fill_(float("nan"))

    with pytest.raises(LabError, match=r"not finite after update 8\. The last checkpoint is .*6\.pt"):
        fit.run_all(CONSOLE, spoil)


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(make_fit):
    fit = make_fit()
    run_all(fit)
    return fit.run.checkpoint(6)


def test_a_checkpoint_of_more_processes_is_refused(make_fit, checkpoint):
    with pytest.raises(ConfigError, match=r"6\.pt is of 1 processes and goes on with as many, not 2"):
        make_fit(checkpoint=checkpoint, processes=Processes(1, 2))


def test_a_checkpoint_of_another_robot_is_refused(make_fit, make_fit_data, checkpoint):
    data = make_fit_data()
    layout = dataclasses.replace(data.teacher.layout, actuated=("slider_to_cart", "cart_to_pole"))
    data = dataclasses.replace(data, teacher=dataclasses.replace(data.teacher, layout=layout))
    with pytest.raises(ConfigError, match=r"6\.pt is of another robot: actuated: .*cart_to_pole.*, not "):
        make_fit(data=data, checkpoint=checkpoint)


def test_a_checkpoint_of_other_files_is_refused(make_fit, make_fit_data, checkpoint):
    data = dataclasses.replace(make_fit_data(), sources=[{"file": "b.hdf5", "episodes": 12, "sha256": "34cd"}])
    with pytest.raises(ConfigError, match=r"6\.pt was fitted to other files"):
        make_fit(data=data, checkpoint=checkpoint)


def test_a_checkpoint_that_has_made_all_updates_is_refused(make_fit, checkpoint):
    with pytest.raises(ConfigError, match=r"6\.pt has made 6 of 6 updates; give more with --updates"):
        make_fit(checkpoint=checkpoint, updates=6)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("network", "Manipulator"),
        ("options", {"hidden": [8]}),
        ("precision", "fp16"),
        ("seed", 2),
        ("holdout", 0.4),
    ],
)
def test_settings_that_cannot_change_on_the_way_are_refused(make_fit, checkpoint, setting, value):
    """Others of these would be another model, or train on what was held out."""
    with pytest.raises(ConfigError, match=rf"6\.pt .*{setting}"):
        make_fit(checkpoint=checkpoint, **{setting: value})


def test_settings_that_may_change_on_the_way(make_fit, checkpoint):
    fit = make_fit(checkpoint=checkpoint, batch_size=16, learning_rate=1e-4, horizon=2, options={"hidden": (16, 16)})
    assert run_all(fit).update == 12


@pytest.mark.parametrize("setting", ["batch_size", "horizon", "save_interval"])
def test_impossible_settings_are_refused(make_fit, setting):
    with pytest.raises(ConfigError, match=f"fit.{setting}: got 0, expected int at least 1"):
        make_fit(**{setting: 0})
