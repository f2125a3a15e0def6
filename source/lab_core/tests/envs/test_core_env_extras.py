"""What terms write into what the latest step returned is refused, with the way that works."""

from __future__ import annotations

import pytest
import torch

from lab_core import mdp
from lab_core.errors import LabError
from lab_core.managers import CurriculumTermCfg, EventTermCfg, MetricTermCfg, ObservationTermCfg, RewardTermCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

REFUSED = r"Nothing writes 'height' here: env\.extras is .* return it from a metric \(cfg\.metrics\)"


def write(env) -> None:
    env.extras["log"]["height"] = 1.0


def alive_and_logged(env) -> torch.Tensor:
    write(env)
    return torch.ones(env.num_envs)


def observed_and_logged(env) -> torch.Tensor:
    write(env)
    return torch.ones(env.num_envs, 1)


def drawn_and_logged(env, mask) -> None:
    write(env)


TERMS = {
    "rewards": RewardTermCfg(func=alive_and_logged),
    "metrics": MetricTermCfg(func=alive_and_logged),
    "events": EventTermCfg(func=drawn_and_logged, mode="reset"),
    "curriculum": CurriculumTermCfg(func=drawn_and_logged),
}


@pytest.mark.parametrize("kind", TERMS)
def test_a_term_that_writes_into_the_log_is_told_the_way_that_works(kind):
    cfg = analytic_cartpole_env_cfg(2)
    getattr(cfg, kind)["logs"] = TERMS[kind]
    with pytest.raises(LabError, match=REFUSED):
        cfg.build().step(torch.zeros(2, 1))


def test_an_observation_that_writes_into_the_log_is_told_so_too():
    cfg = analytic_cartpole_env_cfg(2)
    cfg.observations["policy"].terms["logs"] = ObservationTermCfg(func=observed_and_logged)
    with pytest.raises(LabError, match=REFUSED):
        cfg.build()


@pytest.mark.parametrize(
    "write",
    [
        lambda extras: extras.update(height=1.0),
        lambda extras: extras.setdefault("height", 1.0),
        lambda extras: extras["log"].pop("height"),
        lambda extras: extras["log"].clear(),
        lambda extras: extras.__ior__({"height": 1.0}),
        lambda extras: extras.__setitem__("log", {}),
        lambda extras: extras["log"].__delitem__("height"),
    ],
)
def test_every_way_to_write_is_refused(write):
    env = analytic_cartpole_env_cfg(2).build()
    with pytest.raises(LabError, match="Nothing writes"):
        write(env.extras)


def test_what_a_step_returns_belongs_to_its_caller():
    env = analytic_cartpole_env_cfg(2).build()
    for extras in (env.reset()[1], env.step(torch.zeros(2, 1))[4]):
        extras["log"]["mine"] = 1.0
        extras["episode"] = {"r": 2.0}
        assert (extras["log"]["mine"], extras["episode"]) == (1.0, {"r": 2.0})
    assert "mine" not in env.step(torch.zeros(2, 1))[4]["log"]


def test_extras_show_what_the_latest_step_returned():
    env = analytic_cartpole_env_cfg(2).build()
    extras = env.step(torch.zeros(2, 1))[4]
    assert list(env.extras) == list(extras)
    assert dict(env.extras["log"]) == extras["log"]
    assert env.extras["reset_count"] is extras["reset_count"]


def test_an_item_of_the_weights_is_refused_and_an_assignment_acts():
    cfg = analytic_cartpole_env_cfg(2)
    cfg.rewards = {"alive": RewardTermCfg(func=mdp.is_alive)}
    manager = cfg.build().reward_manager
    with pytest.raises(LabError, match=r"Nothing writes 'alive' here: weights are changed by assigning a dict"):
        manager.weights["alive"] = 2.0
    with pytest.raises(LabError, match="by assigning a dict"):
        manager.weights.update({"alive": 2.0})
    assert manager.weights == {"alive": 1.0}
    manager.weights = {**manager.weights, "alive": 2.0}
    assert manager.weights == {"alive": 2.0}
