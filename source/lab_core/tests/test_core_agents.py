from __future__ import annotations

import pytest

from lab_core.agents import PPOCfg


def test_fields_are_given_by_keyword():
    with pytest.raises(TypeError):
        PPOCfg(7)  # pyright: ignore[reportCallIssue]
    assert PPOCfg(gamma=0.9).gamma == 0.9


def test_two_configs_share_no_mutable_value():
    first, second = PPOCfg(), PPOCfg()
    first.obs_groups["critic"] = ("policy", "privileged")  # pyright: ignore[reportIndexIssue]
    assert second.obs_groups["critic"] == ("policy",)
