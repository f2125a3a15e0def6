"""Settings that are changed in the configuration that ``get_term_cfg`` returns: both front ends follow them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnvCfg, make_env
from lab_core.managers import EventTermCfg, MetricTermCfg, TermError
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import step_report

N = 4


def steps_made(env: Any) -> torch.Tensor:
    return env.episode_length_buf.float()


def cfg() -> ManagerBasedRLEnvCfg:
    """Episodes of three steps; two timers that run out in every step."""
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=3 / 60)
    unmoved = {"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0)}
    for name, is_global in (("own", False), ("shared", True)):
        cfg.events[name] = EventTermCfg(
            func=mdp.reset_joints_by_offset,
            mode="interval",
            interval_range_s=(0.01, 0.01),
            is_global_time=is_global,
            resample_interval_on_reset=False,
            params=dict(unmoved),
        )
    cfg.metrics["steps"] = MetricTermCfg(func=steps_made, mode="mean")
    return cfg


def step(env: Any, times: int = 1) -> tuple[Any, ...]:
    return [env.step(torch.zeros(N, 1)) for _ in range(times)][-1]


def kind_of_end(env: Any) -> list[bool]:
    env.termination_manager.get_term_cfg("time_out").time_out = False
    _, _, terminated, truncated, _ = step(env, 2)
    return [bool(terminated.all()), bool(truncated.any())]


def pause_of_resets(env: Any) -> list[int]:
    env.event_manager.get_term_cfg("reset_cart").min_step_count_between_reset = 4  # a reset after 3 steps is too early
    last = env.event_manager._last_step["reset_cart"]
    return [int((step(env), last[0])[1]) for _ in range(9)]


def interval(env: Any) -> list[float]:
    for name in ("own", "shared"):
        env.event_manager.get_term_cfg(name).interval_range_s = (5.0, 5.0)
    step(env, 3)
    return [round(float(env.event_manager._time_left[name][0]), 3) for name in ("own", "shared")]


def interval_at_resets(env: Any) -> float:
    term = env.event_manager.get_term_cfg("own")
    term.interval_range_s = (1.0, 1.0)
    step(env)
    term.resample_interval_on_reset = True
    step(env)  # in which all episodes end; no time passes after the reset
    return round(float(env.event_manager._time_left["own"][0]), 3)


def mode_of_metric(env: Any) -> float:
    env.metrics_manager.get_term_cfg("steps").mode = "sum"
    step(env, 2)
    step(env, 3)
    return float(env.extras["log"]["Metrics/steps"])


CHANGES = [
    (kind_of_end, [True, False]),
    (pause_of_resets, [0, 0, 0, 0, 6, 6, 6, 6, 6]),
    (interval, [4.967, 4.967]),
    (interval_at_resets, 1.0),
    (mode_of_metric, 6.0),
]


@pytest.mark.parametrize("frontend", ["torch", "warp"])
@pytest.mark.parametrize(("change", "expected"), CHANGES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_setting_changed_in_place_acts_on_the_next_step(change: Callable[[Any], Any], expected, frontend):
    env = make_env(cfg(), frontend=frontend)
    step(env)
    assert change(env) == expected
    if isinstance(env, ManagerBasedRLEnvWarp):
        assert step_report(env).num_captures == 1


def test_an_unknown_mode_of_a_metric_is_refused():
    env = ManagerBasedRLEnvWarp(cfg())
    env.metrics_manager.get_term_cfg("steps").mode = "median"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TermError, match="metric term 'steps': .*'median'"):
        step(env)
