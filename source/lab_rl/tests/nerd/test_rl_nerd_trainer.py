"""Updates: what is minimised, precisions, rollouts, and going on bit for bit."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch

from lab_core.errors import ConfigError, LabError
from lab_rl.nerd.trainer import RULE_TOLERANCE, Trainer, check_rule, prepare_model

NORMALISERS = ("inputs.mean", "inputs.std", "changes.mean", "changes.std")


def loss_of(trainer: Trainer) -> float:
    """Over all windows, in FP32."""
    plain = copy.copy(trainer)
    plain.cfg = dataclasses.replace(trainer.cfg, precision="fp32")
    with torch.no_grad():
        return float(plain.squared_errors(trainer.sampler.starts[:, None] + torch.arange(trainer.cfg.horizon)).mean())


# Going on -------------------------------------------------------------------------------------------------------------


MEMORY = {"network": "VectorNeRD", "options": {"context": 4, "size": 16, "depth": 1, "heads": 2, "head_hidden": 8}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"precision": "bf16"},
        {"precision": "fp16"},
        {"horizon": 3, "network": "Manipulator", "weight_decay": 0.01},
        {"horizon": 2, **MEMORY},
    ],
    ids=["fp32", "bf16", "fp16", "rollouts", "memory"],
)
def test_a_fit_in_two_parts_is_the_fit_in_one(make_trainer, assert_same, changes):
    whole, first = make_trainer(**changes), make_trainer(**changes)
    losses = [whole.update() for _ in range(12)]
    for _ in range(6):
        first.update()
    state, stream = copy.deepcopy(first.state_dict()), copy.deepcopy(first.sampler.state_dict())
    torch.manual_seed(99)
    second = make_trainer(**changes)
    for _ in range(2):  # what it did before does not matter
        second.update()
    second.load_state_dict(state)
    second.sampler.load_state_dict(stream)
    assert_same([second.update() for _ in range(6)], losses[6:])
    assert_same(second.state_dict(), whole.state_dict())
    assert_same(second.sampler.state_dict(), whole.sampler.state_dict())
    assert second.update_count == 12


@pytest.mark.gpu
@pytest.mark.parametrize(
    "changes",
    [{}, {"state_noise": 0.1}, {"precision": "fp16"}, {"horizon": 3}, MEMORY],
    ids=["fp32", "noise", "fp16", "rollouts", "memory"],
)
def test_captured_updates_are_those_without_a_graph(make_trainer, changes):
    captured = make_trainer(device="cuda", **changes)
    plain = make_trainer(device="cuda", captured=False, **changes)
    losses = [torch.stack([trainer.update() for _ in range(20)]) for trainer in (captured, plain)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=0.0)
    for mine, other in zip(captured.averaged.parameters(), plain.averaged.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
def test_a_state_goes_on_on_another_device(make_trainer, assert_same):
    gpu, cpu = make_trainer(device="cuda"), make_trainer()
    for first, second in ((gpu, cpu), (cpu, gpu)):
        for _ in range(6):
            first.update()
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        assert second.update().isfinite() and second.update_count == first.update_count + 1


def test_resuming_takes_the_weight_decay_that_is_configured_now(make_trainer):
    first, edited = make_trainer(weight_decay=0.1), make_trainer(weight_decay=0.5)
    first.update()
    edited.load_state_dict(copy.deepcopy(first.state_dict()))
    edited.update()
    assert {group["weight_decay"] for group in edited.state_dict()["optimizer"]["param_groups"]} == {0.5}


def test_normalisers_stay_as_they_were_fitted(make_trainer, make_steps, make_model):
    trainer, fitted = make_trainer(), make_model()
    prepare_model(fitted, make_steps())
    for _ in range(6):
        trainer.update()
    expected = fitted.state_dict()
    for model in (trainer.model, trainer.averaged):
        assert all(torch.equal(model.state_dict()[name], expected[name]) for name in NORMALISERS)
    assert set(NORMALISERS) <= set(trainer.state_dict()["model"])


# What is minimised ----------------------------------------------------------------------------------------------------


def test_updates_make_the_loss_small(make_trainer):
    trainer = make_trainer(updates=300, batch_size=128, learning_rate=5e-3)
    before = loss_of(trainer)
    for _ in range(300):
        loss = trainer.update()
    assert 0.5 < before < 2.0  # an untrained network knows no more than the mean
    assert loss_of(trainer) < 0.1 * before and loss.shape == () and not loss.requires_grad


@pytest.mark.parametrize(("loss", "expected"), [("squared", (0.25 + 9.0) / 2), ("huber", (0.25 + 2 * 3.0 - 1.0) / 2)])
def test_huber_takes_large_errors_for_what_they_are(make_trainer, monkeypatch, loss, expected):
    trainer = make_trainer(loss=loss)
    weight = next(trainer.model.network.parameters())
    monkeypatch.setattr(trainer, "squared_errors", lambda rows, noise: torch.tensor([0.25, 9.0]) + 0.0 * weight.sum())
    assert float(trainer.update()) == pytest.approx(expected)


def test_an_unknown_loss_is_refused(make_trainer):
    with pytest.raises(ConfigError, match=r"fit.loss: got 'cubed' .*'squared', 'huber'"):
        make_trainer(loss="cubed").cfg.check()


def test_the_average_follows_the_weights(make_trainer):
    """Early on it forgets quickly; later each update counts 1 - ema_decay."""
    trainer = make_trainer(ema_decay=0.2)
    expected = [parameter.clone() for parameter in trainer.averaged.parameters()]
    for update in range(1, 6):
        trainer.update()
        decay = min(0.2, update / (update + 10.0))
        expected = [
            decay * mean + (1.0 - decay) * value.detach()
            for mean, value in zip(expected, trainer.model.parameters(), strict=True)
        ]
    torch.testing.assert_close(list(trainer.averaged.parameters()), expected, rtol=1e-5, atol=1e-7)


def test_without_an_average_the_weights_themselves_are_kept(make_trainer, assert_same):
    trainer = make_trainer(ema_decay=0.0)
    for _ in range(3):
        trainer.update()
    assert_same(trainer.state_dict()["averaged"], trainer.state_dict()["model"])


@pytest.mark.parametrize("horizon", [1, 8])
def test_a_perfect_model_has_no_loss(make_closed_form, make_steps, make_cfg, horizon):
    steps = make_steps()
    model, pose_scale = make_closed_form(steps)
    trainer = Trainer(make_cfg(horizon=horizon), model, pose_scale, steps)
    errors = trainer.squared_errors(trainer.sampler.draw(64))
    # Velocities after each step, and the poses that all but the first one begin with.
    assert errors.shape == (64 * 2 * (2 * horizon - 1),)
    assert errors.max() < 1e-6


def test_a_model_that_drifts_is_told_so_by_a_rollout(make_closed_form, make_steps, make_cfg):
    steps = make_steps()
    model, pose_scale = make_closed_form(steps)
    model.network.drift.data.fill_(0.1)
    losses = [loss_of(Trainer(make_cfg(horizon=horizon), model, pose_scale, steps)) for horizon in (1, 4, 8)]
    assert losses[0] == pytest.approx(0.01, rel=1e-3)
    # Velocities are off by 1, 2, ... times as much, so their squares by 1, 4, ...
    assert losses[1] > 3.0 * losses[0] and losses[2] > 3.0 * losses[1]


def test_a_rollout_is_told_where_its_poses_are(make_closed_form, make_steps, make_cfg):
    """They lie off by dt times the velocity, over the standard deviation of changes of pose."""
    steps = make_steps()
    model, pose_scale = make_closed_form(steps)
    drift = torch.tensor([0.3, -0.2])
    model.network.drift.data.copy_(drift)
    trainer = Trainer(make_cfg(horizon=2), model, pose_scale, steps)
    first, _, poses = trainer.squared_errors(trainer.sampler.draw(16)).view(3, 16, 2)
    torch.testing.assert_close(first, (drift**2).expand(16, 2), rtol=1e-3, atol=0.0)
    off = drift * model.changes.std * model.layout.dt / pose_scale
    torch.testing.assert_close(poses, (off**2).expand(16, 2), rtol=1e-2, atol=0.0)


def test_gradients_flow_through_the_rollout(make_closed_form, make_steps, make_cfg):
    """The gradient is that of the whole rollout, as differences of losses show."""
    steps = make_steps()
    model, pose_scale = make_closed_form(steps)
    trainer = Trainer(make_cfg(horizon=6), model, pose_scale, steps)
    rows, drift = trainer.sampler.draw(64), model.network.drift

    def loss(value: torch.Tensor) -> torch.Tensor:
        drift.data.copy_(value)
        return trainer.squared_errors(rows).mean()

    here = torch.tensor([0.2, -0.1])
    loss(here).backward()
    for channel in range(2):
        nudge = 0.05 * torch.nn.functional.one_hot(torch.tensor(channel), 2)
        with torch.no_grad():
            slope = (loss(here + nudge) - loss(here - nudge)) / 0.1
        assert float(drift.grad[channel]) == pytest.approx(float(slope), rel=0.02)
        assert abs(slope) > 5.0 * abs(here[channel])  # predicting each step by itself gives its value


@pytest.mark.parametrize("horizon", [1, 4])
def test_a_model_with_memory_sees_frames_as_they_were(make_closed_form, make_steps, make_cfg, horizon):
    """First recorded ones, then those of its own predictions, which are right here."""
    steps = make_steps()
    model, pose_scale = make_closed_form(steps)
    model.network.context = 3
    trainer = Trainer(make_cfg(horizon=horizon), model, pose_scale, steps)
    rows = trainer.sampler.draw(16)
    seen = []
    model.network.register_forward_pre_hook(lambda network, arguments: seen.append(arguments[0]))
    errors = trainer.squared_errors(rows)
    assert rows.shape == (16, 2 + horizon) and len(seen) == horizon
    assert errors.shape == (16 * 2 * (3 + 2 * (horizon - 1)),) and errors.max() < 1e-6
    features = model.representation.features(steps.q, steps.qd, steps.effort)
    for first, frames in enumerate(seen):
        torch.testing.assert_close(frames, model.inputs(features[rows[:, first : first + 3]]), rtol=0.0, atol=1e-4)


# Precision ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_learns_as_well(make_trainer, precision):
    changes = {"updates": 80, "batch_size": 128, "learning_rate": 5e-3}
    exact, half = make_trainer(**changes), make_trainer(precision=precision, **changes)
    losses = []
    for _ in range(80):
        exact.update()
        losses.append(half.update())
    assert torch.stack(losses).isfinite().all()
    assert all(parameter.dtype == torch.float32 for parameter in half.model.parameters())
    assert loss_of(half) == pytest.approx(loss_of(exact), rel=0.05)
    assert loss_of(half) != loss_of(exact)  # it did compute with less


def test_a_batch_that_overflows_changes_nothing_but_the_scale(make_trainer, assert_same):
    trainer = make_trainer(precision="fp16")
    for _ in range(2):
        trainer.update()
    state = copy.deepcopy(trainer.state_dict())
    state["scaler"]["scale"] = 2.0**60
    trainer.load_state_dict(copy.deepcopy(state))
    assert trainer.update().isfinite()
    found = trainer.state_dict()
    assert_same(found["model"], state["model"])
    assert_same(found["optimizer"]["state"], state["optimizer"]["state"])
    assert found["scaler"]["scale"] == 2.0**59 and found["update_count"] == 3


# The rule of poses ----------------------------------------------------------------------------------------------------


def test_poses_that_follow_from_velocities_are_accepted(make_model, make_steps):
    model, steps = make_model(), make_steps()
    pose_scale = prepare_model(model, steps)
    assert check_rule(model, steps) < 1e-6
    expected = (steps.q_next - steps.q).std(dim=0, correction=0)
    torch.testing.assert_close(pose_scale, expected, rtol=1e-3, atol=0.0)


def test_poses_that_do_not_follow_from_velocities_are_refused(make_model, make_steps):
    """Such as those of a solver that moves poses by the velocities at the beginning."""
    steps = make_steps()
    steps.q_next[17, 1] += 0.00125
    with pytest.raises(LabError, match=r"position cart_to_pole ends up to 0\.001[23].* 2e-05"):
        prepare_model(make_model(), steps)
    explicit = make_steps()
    explicit.q_next.copy_(explicit.q + explicit.qd / 120.0)
    with pytest.raises(LabError, match=r"where its velocity leads in 0\.00833333 s"):
        prepare_model(make_model(), explicit)


def test_rounding_far_away_is_no_violation(make_model, make_steps):
    steps = make_steps()
    q = steps.q + torch.tensor([100.0, 0.0])
    q_next = torch.nextafter(q + steps.qd_next / 120.0, torch.tensor(torch.inf))
    far = dataclasses.replace(steps, q=q, q_next=q_next)
    assert 1e-6 < check_rule(make_model(), far) < RULE_TOLERANCE
