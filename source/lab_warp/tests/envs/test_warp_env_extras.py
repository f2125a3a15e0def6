"""Terms without a twin that write into what the latest step returned are refused as in torch."""

from __future__ import annotations

import pytest
import torch

from lab_core.errors import LabError
from lab_core.managers import CurriculumTermCfg, RewardTermCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import build_env


def alive_and_logged(env) -> torch.Tensor:
    env.extras["log"]["height"] = 1.0
    return torch.ones(env.num_envs, device=env.device)


def logged(env, mask) -> None:
    env.extras["log"]["height"] = 1.0


@pytest.mark.parametrize(
    ("kind", "term"),
    [("rewards", RewardTermCfg(func=alive_and_logged)), ("curriculum", CurriculumTermCfg(func=logged))],
)
def test_a_term_that_writes_into_the_log_is_told_the_way_that_works(kind, term):
    cfg = analytic_cartpole_env_cfg(2)
    getattr(cfg, kind)["logs"] = term
    with pytest.raises(LabError, match=r"Nothing writes 'height' here: env\.extras is .* from a metric"):
        build_env(cfg).step(torch.zeros(2, 1))


def test_an_item_of_the_weights_is_refused():
    env = build_env(analytic_cartpole_env_cfg(2))
    name = next(iter(env.reward_manager.weights))
    with pytest.raises(LabError, match="weights are changed by assigning a dict"):
        env.reward_manager.weights[name] = 2.0
