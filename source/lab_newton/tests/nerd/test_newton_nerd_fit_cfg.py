"""What the settings of a fit may be."""

from __future__ import annotations

import math

import pytest

from lab_core.errors import ConfigError
from lab_newton import FitCfg


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("updates", 0, "got 0, expected int at least 1"),
        ("updates", 1e4, r"got 10000.0 \(float\), expected int at least 1"),
        ("batch_size", True, r"got True \(bool\), expected int at least 1"),
        ("warmup_updates", -1, "got -1, expected int at least 0"),
        ("learning_rate", "fast", r"got 'fast' \(str\), expected finite float above 0"),
        ("learning_rate", 0.0, "got 0.0, expected finite float above 0"),
        ("learning_rate", math.inf, "got inf, expected finite float above 0"),
        ("final_learning_rate", -1e-6, "got -1e-06, expected finite float at least 0"),
        ("weight_decay", -0.1, "got -0.1, expected finite float at least 0"),
        ("state_noise", math.nan, "got nan, expected finite float at least 0"),
        ("holdout", 1.5, r"got 1.5, expected finite float in 0 .. 1"),
        ("precision", "fp8", "got 'fp8' .*'fp32', 'bf16', 'fp16'"),
        ("loss", "cubed", "got 'cubed' .*'squared', 'huber'"),
        ("network", None, r"got None \(NoneType\), expected str"),
        ("options", [], "expected Mapping"),
        ("seed", "one", r"got 'one' \(str\), expected int"),
    ],
)
def test_a_setting_of_the_wrong_kind_or_range_is_named(field, value, message):
    cfg = FitCfg()
    setattr(cfg, field, value)
    with pytest.raises(ConfigError, match=rf"^fit\.{field}: .*{message}"):
        cfg.check()


def test_nothing_can_be_all_of_itself():
    with pytest.raises(ConfigError, match="fit.holdout must be less than 1"):
        FitCfg(holdout=1.0).check()
