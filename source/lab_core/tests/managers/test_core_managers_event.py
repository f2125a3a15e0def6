"""Events: modes, timers and minimum distances between resets."""

from __future__ import annotations

import warnings

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import EventManager, EventTermCfg, ManagerTermBase, TermError, declare
from lab_core.managers.timers import SLACK
from lab_core.testing import check_masked_reset
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5
ALL = torch.ones(N, dtype=torch.bool)


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N, episode_length_s=10.0).build()


class Log:
    """An event term that remembers its masks."""

    def __init__(self) -> None:
        self.masks: list[list[bool]] = []

    def __call__(self, env, mask):
        self.masks.append(mask.tolist())

    def count(self, row: int = 0) -> int:
        return sum(mask[row] for mask in self.masks)


def interval(log, low, high, **settings):
    return EventTermCfg(func=log, mode="interval", interval_range_s=(low, high), **settings)


def test_modes_are_applied_apart_and_in_order(env):
    calls = []

    def term(env, mask, name):
        calls.append((name, mask.tolist()))

    modes = {"b": "startup", "p": "prestartup", "a": "startup", "r": "reset"}
    manager = EventManager({n: EventTermCfg(func=term, mode=m, params={"name": n}) for n, m in modes.items()}, env)
    assert manager.has_mode("startup") and not manager.has_mode("interval")
    manager.apply("startup")
    assert calls == [("b", [True] * N), ("a", [True] * N)]
    manager.apply("prestartup")
    manager.apply("reset", mask=torch.tensor([False, True, False, False, False]), step_count=0)
    manager.apply("reset", step_count=0)
    assert calls[2:] == [("p", [True] * N), ("r", [False, True, False, False, False]), ("r", [True] * N)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "intervall", "dt": 0.1}, "unknown event mode 'intervall'. Did you mean 'interval'"),
        ({"mode": "interval", "dt": 0.1, "mask": ALL}, "Interval events take no mask"),
        ({"mode": "interval"}, "Interval events need dt"),
        ({"mode": "reset"}, "Reset events need step_count"),
    ],
)
def test_wrong_arguments(env, arguments, message):
    with pytest.raises(ValueError, match=message):
        EventManager({}, env).apply(**arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "starup"}, "event term 'e': unknown mode 'starup'. Did you mean"),
        ({"mode": "interval"}, r"event term 'e': interval_range_s must be \(low, high\), got None"),
        ({"mode": "interval", "interval_range_s": (2.0, 1.0)}, "interval_range_s must have low <= high"),
        ({"mode": "interval", "interval_range_s": (-1.0, 1.0)}, "interval_range_s must not be negative"),
        ({"min_step_count_between_reset": -1}, "min_step_count_between_reset must not be negative, got -1"),
    ],
)
def test_wrong_settings(env, settings, message):
    with pytest.raises(TermError, match=message):
        EventManager({"e": EventTermCfg(func=Log(), **settings)}, env)


def test_an_event_that_writes_what_has_no_effect_is_refused(env, monkeypatch):
    @declare(writes=("body_wrench_w",))
    def gust(env, mask):
        pass

    EventManager({"gust": EventTermCfg(func=gust)}, env)
    monkeypatch.setattr(type(env.physics), "ignored_buffers", frozenset({"body_wrench_w"}))
    EventManager({"gust": None, "e": EventTermCfg(func=Log())}, env)
    with pytest.raises(TermError, match="event term 'gust' .*writes body_wrench_w, which has no effect.*analytic"):
        EventManager({"gust": EventTermCfg(func=gust)}, env)


# Interval ---------------------------------------------------------------------------------------------------------


def test_interval_fires_when_the_time_is_up(env):
    log = Log()
    manager = EventManager({"e": interval(log, 0.3, 0.3)}, env)
    for _ in range(9):
        manager.apply("interval", dt=0.1)
    assert [mask == [True] * N for mask in log.masks] == [False, False, True] * 3


@pytest.mark.parametrize(("time", "dt", "steps"), [(5.0, 0.02, 250), (15.0, 0.02, 750), (2.0, 1 / 60, 120)])
def test_a_time_of_whole_steps_does_not_miss_its_step(env, time, dt, steps):
    log = Log()
    manager = EventManager({"e": interval(log, time, time)}, env)
    for _ in range(2 * steps):
        manager.apply("interval", dt=dt)
    assert [step + 1 for step, mask in enumerate(log.masks) if all(mask)] == [steps, 2 * steps]


def test_each_environment_has_its_own_timer(env):
    log = Log()
    manager = EventManager({"e": interval(log, 0.5, 2.0)}, env)
    time_left = manager._time_left["e"].clone()
    for _ in range(20):
        manager.apply("interval", dt=0.1)
    first = torch.tensor(log.masks).float().argmax(dim=0) + 1
    assert torch.equal(first, torch.ceil(time_left / 0.1 - SLACK).long())
    assert len(set(time_left.tolist())) == N


def test_global_timer_fires_everywhere_and_ignores_resets(env):
    log = Log()
    manager = EventManager({"e": interval(log, 1.0, 3.0, is_global_time=True)}, env)
    before = manager._time_left["e"].clone()
    manager.reset(ALL)
    assert torch.equal(manager._time_left["e"], before) and before.shape == (1,)
    for _ in range(40):
        manager.apply("interval", dt=0.1)
    assert {tuple(mask) for mask in log.masks} == {(True,) * N, (False,) * N}


def test_partial_reset_moves_the_timers_of_its_rows_only(env):
    class ClassTerm(ManagerTermBase):
        def __call__(self, env, mask):
            pass

    cfg = {"a": interval(Log(), 1.0, 2.0), "b": interval(ClassTerm, 3.0, 4.0), "r": EventTermCfg(func=Log())}
    manager = EventManager(cfg, env)
    changed = check_masked_reset(manager, manager.reset, N)
    assert changed == {"_time_left.a", "_time_left.b"}
    manager.reset(ALL)
    for name, (low, high) in {"a": (1.0, 2.0), "b": (3.0, 4.0)}.items():
        assert (manager._time_left[name] >= low).all() and (manager._time_left[name] <= high).all()


@pytest.mark.parametrize(("resample", "expected"), [(True, 10), (False, 14)])
def test_rearming_at_resets_is_a_choice(env, resample, expected):
    log = Log()
    manager = EventManager({"e": interval(log, 7.0, 7.0, resample_interval_on_reset=resample)}, env)
    for step in range(1, 1001):
        if step % 100 == 0:
            manager.reset(ALL)
        manager.apply("interval", dt=0.1)
    assert log.count() == expected


def test_interval_longer_than_an_episode_warns(env):
    with pytest.warns(UserWarning, match=r"event term 'e' never acts.*12.0 s.*10.0 s"):
        EventManager({"e": interval(Log(), 12.0, 15.0)}, env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EventManager({"e": interval(Log(), 12.0, 15.0, resample_interval_on_reset=False)}, env)
        EventManager({"e": interval(Log(), 12.0, 15.0, is_global_time=True)}, env)


def test_new_interval_range_acts_at_once(env):
    log = Log()
    manager = EventManager({"e": interval(log, 9.0, 9.0)}, env)
    cfg = manager.get_term_cfg("e")
    cfg.interval_range_s = (0.2, 0.2)
    manager.set_term_cfg("e", cfg)
    for _ in range(4):
        manager.apply("interval", dt=0.1)
    assert log.count() == 2
    before = manager._time_left["e"].clone()
    manager.set_term_cfg("e", cfg)
    assert torch.equal(manager._time_left["e"], before)


@pytest.mark.parametrize("change", [{"mode": "reset"}, {"is_global_time": True}])
def test_mode_and_kind_of_timer_are_fixed(env, change):
    manager = EventManager({"e": interval(Log(), 1.0, 2.0)}, env)
    cfg = manager.get_term_cfg("e")
    for name, value in change.items():
        setattr(cfg, name, value)
    with pytest.raises(TermError, match="event term 'e': mode and is_global_time cannot change"):
        manager.set_term_cfg("e", cfg)


# Reset ------------------------------------------------------------------------------------------------------------


def test_minimum_distance_between_resets_counts_per_environment(env):
    log = Log()
    manager = EventManager({"e": EventTermCfg(func=log, min_step_count_between_reset=10)}, env)
    only_first = torch.tensor([True, False, False, False, False])
    manager.apply("reset", mask=only_first, step_count=0)
    manager.apply("reset", mask=ALL, step_count=5)
    manager.apply("reset", mask=ALL, step_count=9)
    manager.apply("reset", mask=ALL, step_count=10)
    manager.apply("reset", mask=ALL, step_count=14)
    manager.apply("reset", mask=ALL, step_count=15)
    assert log.masks == [
        [True, False, False, False, False],
        [False, True, True, True, True],  # their first reset
        [False] * N,
        [True, False, False, False, False],
        [False] * N,
        [False, True, True, True, True],
    ]


def test_minimum_distance_set_later_counts_from_the_last_action(env):
    log = Log()
    manager = EventManager({"e": EventTermCfg(func=log)}, env)
    manager.apply("reset", mask=ALL, step_count=6)
    cfg = manager.get_term_cfg("e")
    cfg.min_step_count_between_reset = 10
    manager.set_term_cfg("e", cfg)
    manager.apply("reset", mask=ALL, step_count=7)
    manager.apply("reset", mask=ALL, step_count=16)
    assert log.masks == [[True] * N, [False] * N, [True] * N]


def test_state_continues_timers_and_distances(env):
    cfg = {"i": interval(Log(), 1.0, 2.0), "r": EventTermCfg(func=Log(), min_step_count_between_reset=10)}
    manager, other = EventManager(cfg, env), EventManager(cfg, env)
    manager.apply("reset", step_count=3)
    other.load_state_dict(manager.state_dict())
    assert torch.equal(other._time_left["i"], manager._time_left["i"])
    assert other._last_step["r"].tolist() == [3] * N
