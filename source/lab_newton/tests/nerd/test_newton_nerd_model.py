"""Models that step: one world is like another, and a step is what the parts say."""

from __future__ import annotations

import pytest
import torch

from lab_core.errors import ConfigError
from lab_newton.nerd import NeRDModel


def test_a_step_is_features_network_and_rule(layout, make_model, make_state):
    model = make_model(layout)
    q, qd, effort = make_state(layout, 5)
    features = model.representation.features(q, qd, effort)
    q_next, qd_next = model.step(model.make_history(5), q, qd, effort)
    expected = model.representation.apply_change(q, qd, model.predict(features[:, None]))
    assert torch.equal(q_next, expected[0]) and torch.equal(qd_next, expected[1])
    outputs = model(features[:, None])
    torch.testing.assert_close(model.changes.inverse(outputs[:, -1]), model.predict(features[:, None]))


def test_worlds_do_not_see_each_other(layout, make_model, make_state):
    model = make_model(layout)
    state = make_state(layout, 5)
    broken = [x.clone() for x in state]
    broken[2][1] = float("nan")
    expected = model.step(model.make_history(5), *state)
    found = model.step(model.make_history(5), *broken)
    others = [0, 2, 3, 4]
    for before, after in zip(expected, found, strict=True):
        assert torch.equal(before[others], after[others])
    assert torch.isnan(found[1][1]).all()


def test_scales_travel_with_the_weights(layout, make_model):
    model = make_model(layout)
    names = set(model.state_dict())
    assert {"inputs.mean", "inputs.std", "changes.mean", "changes.std"} <= names
    assert not any(name.startswith("representation") for name in names)  # that is the layout's


def test_unknown_networks_and_options_are_refused(layout):
    with pytest.raises(ConfigError, match="unknown network 'MPL'. Did you mean 'MLP'"):
        NeRDModel(layout, "MPL")
    with pytest.raises(ConfigError, match="Options of the network MLP: .*width"):
        NeRDModel(layout, "MLP", {"width": 3})
