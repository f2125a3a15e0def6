"""Errors over one step: against a calculation by hand, by regime, and never ranked on different scales."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from lab_core.errors import LabError
from lab_newton.nerd import NeRDModel, load_model, save_model
from lab_rl.nerd.metrics import OneStepError, OneStepEvaluator, check_comparable, scale_name
from lab_rl.nerd.physics_steps import PhysicsSteps
from lab_rl.nerd.trainer import prepare_model

POSES = ("position slider_to_cart", "position cart_to_pole")
VELOCITIES = ("velocity slider_to_cart", "velocity cart_to_pole")


@pytest.fixture
def guess(layout) -> NeRDModel:
    """A model with steps of half a second that always says 0.5 and -1 on the scale of changes: 1.1 m/s, -4.2 rad/s."""
    model = NeRDModel(dataclasses.replace(layout, dt=0.5), "MLP", {"hidden": []})
    for parameter in model.parameters():
        parameter.data.zero_()
    model.network.layers[-1].bias.data.copy_(torch.tensor([0.5, -1.0]))
    model.changes.mean.copy_(torch.tensor([0.1, -0.2]))
    model.changes.std.copy_(torch.tensor([2.0, 4.0]))
    return model.eval()


@pytest.fixture
def steps() -> PhysicsSteps:
    """Three steps, the last two of another regime."""
    return PhysicsSteps(
        q=torch.tensor([[1.0, 3.0], [0.0, 0.0], [2.0, -1.0]]),
        qd=torch.tensor([[0.5, 1.0], [0.0, 2.0], [-1.0, 0.0]]),
        effort=torch.zeros(3, 2),
        q_next=torch.tensor([[2.0, 3.0 - 2.0 * math.pi], [0.25, -1.0], [2.0, -3.0]]),
        qd_next=torch.tensor([[2.0, 0.0], [0.5, -2.0], [0.0, -4.0]]),
        joins=torch.tensor([False, False, False]),
        episode=torch.tensor([0, 1, 1]),
        regime=torch.tensor([0, 1, 1]),
        regimes=("swing", "rest"),
    )


SCALE = (0.5, 2.0)
VELOCITY_ERRORS = (
    ((1.1 - 1.5) / 2.0, (-4.2 + 1.0) / 4.0),
    ((1.1 - 0.5) / 2.0, (-4.2 + 4.0) / 4.0),
    ((1.1 - 1.0) / 2.0, (-4.2 + 4.0) / 4.0),
)
"""Predicted change less recorded change, over its standard deviation."""
POSE_ERRORS = (
    ((1.0 + 0.5 * 1.6 - 2.0) / 0.5, (3.0 + 0.5 * -3.2 - 3.0) / 2.0),
    ((0.0 + 0.5 * 1.1 - 0.25) / 0.5, (0.0 + 0.5 * -2.2 + 1.0) / 2.0),
    ((2.0 + 0.5 * 0.1 - 2.0) / 0.5, (-1.0 + 0.5 * -4.2 + 3.0) / 2.0),
)
"""q + dt (qd + predicted change) less the recorded end, over its standard deviation; whole turns do not count."""


def mean_square(errors, channel: int, rows: slice) -> float:
    values = [row[channel] ** 2 for row in errors[rows]]
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("regime", "rows"),
    [(None, slice(0, 3)), ("swing", slice(0, 1)), ("rest", slice(1, 3))],
    ids=["all", "swing", "rest"],
)
def test_equals_a_calculation_by_hand(guess, steps, regime, rows):
    error = OneStepEvaluator(steps, 1, torch.tensor(SCALE))(guess, regime)
    assert tuple(error.poses) == POSES and tuple(error.velocities) == VELOCITIES
    poses = [mean_square(POSE_ERRORS, channel, rows) for channel in range(2)]
    velocities = [mean_square(VELOCITY_ERRORS, channel, rows) for channel in range(2)]
    assert list(error.poses.values()) == pytest.approx(poses, rel=1e-4)
    assert list(error.velocities.values()) == pytest.approx(velocities, rel=1e-4)
    assert error.velocity == pytest.approx(sum(velocities) / 2, rel=1e-4)
    assert error.all_channels == pytest.approx(sum(poses + velocities) / 4, rel=1e-4)
    assert error.count == rows.stop - rows.start


def test_regimes_add_up_to_the_whole(make_closed_form, make_steps):
    steps = make_steps((7, 5, 9), ("swing", "rest"))
    model, pose_scale = make_closed_form(steps)
    model.network.drift.data.copy_(torch.tensor([0.1, 0.3]))
    evaluator = OneStepEvaluator(steps, 1, pose_scale)
    whole, parts = evaluator(model), [evaluator(model, regime) for regime in steps.regimes]
    assert whole.count == sum(part.count for part in parts) == 21
    assert list(whole.velocities.values()) == pytest.approx([0.01, 0.09], rel=1e-3)
    for kind in ("poses", "velocities"):
        for name, value in getattr(whole, kind).items():
            added = sum(part.count * getattr(part, kind)[name] for part in parts)
            assert value == pytest.approx(added / whole.count)


def test_a_perfect_model_makes_no_error(make_closed_form, make_steps):
    steps = make_steps()
    model, pose_scale = make_closed_form(steps)
    assert OneStepEvaluator(steps, 1, pose_scale)(model).all_channels < 1e-8


def test_a_model_with_memory_is_asked_for_the_last_step_of_each_window(make_closed_form, make_steps):
    steps = make_steps((7, 2, 9), ("swing", "rest"))
    model, pose_scale = make_closed_form(steps)
    evaluator = OneStepEvaluator(steps, 3, pose_scale)
    assert evaluator(model).count == 5 + 0 + 7 and evaluator(model).all_channels < 1e-8
    assert evaluator(model, "swing").count == 12
    assert evaluator(model, "rest").count == 0 and math.isnan(evaluator(model, "rest").velocity)


def test_the_mean_change_has_error_one(make_model, make_steps):
    """What the scale means: 1 is a model that knows nothing but the mean."""
    steps, model = make_steps((200,) * 4), make_model()
    pose_scale = prepare_model(model, steps)
    for parameter in model.parameters():
        parameter.data.zero_()
    assert list(OneStepEvaluator(steps, 1, pose_scale)(model).velocities.values()) == pytest.approx(
        [1.0, 1.0], rel=1e-3
    )


def test_a_regime_without_a_step_has_no_figure(guess, steps):
    steps = dataclasses.replace(steps, regimes=("swing", "rest", "run"))
    found = OneStepEvaluator(steps, 1, torch.tensor(SCALE))(guess, "run")
    assert found.count == 0 and math.isnan(found.all_channels)


def test_figures_of_one_scale_compare(guess, steps):
    evaluator = OneStepEvaluator(steps, 1, torch.tensor(SCALE))
    one = evaluator(guess)
    guess.network.layers[-1].bias.data.zero_()
    other = evaluator(guess)
    assert one.scale == other.scale and one.name == other.name == f"nmse[{one.scale}]"
    assert one.all_channels != other.all_channels
    check_comparable({"one": one, "other": other})


def test_figures_of_different_scales_are_not_ranked(guess, steps):
    errors: dict[str, OneStepError] = {"a": OneStepEvaluator(steps, 1, torch.tensor(SCALE))(guess)}
    errors["poses"] = OneStepEvaluator(steps, 1, torch.tensor((0.5, 2.001)))(guess)
    guess.changes.std[0] = 2.001
    errors["velocities"] = OneStepEvaluator(steps, 1, torch.tensor(SCALE))(guess)
    assert len({error.scale for error in errors.values()}) == 3
    with pytest.raises(LabError, match=rf"do not compare \(a: nmse\[{errors['a'].scale}\], poses: nmse"):
        check_comparable(errors)


def test_the_scale_survives_a_file(guess, tmp_path):
    save_model(tmp_path / "guess.nerd", guess, {})
    found, _ = load_model(tmp_path / "guess.nerd")
    assert scale_name(found, torch.tensor(SCALE)) == scale_name(guess, torch.tensor(SCALE))
