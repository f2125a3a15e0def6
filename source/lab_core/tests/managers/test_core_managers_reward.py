"""Rewards, terminations and metrics."""

from __future__ import annotations

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import (
    MetricsManager,
    MetricTermCfg,
    RewardManager,
    RewardTermCfg,
    TermError,
    TerminationManager,
    TerminationTermCfg,
    UnknownTermError,
)
from lab_core.testing import check_masked_reset
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5
ALL = torch.ones(N, dtype=torch.bool)
NONE = torch.zeros(N, dtype=torch.bool)


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N).build()


def rows(env):
    return torch.arange(N)


# Rewards ----------------------------------------------------------------------------------------------------------


def test_reward_is_the_weighted_sum_times_dt(env):
    cfg = {"a": RewardTermCfg(func=rows, weight=2.0), "b": RewardTermCfg(func=lambda env: ALL, weight=-1.0)}
    manager = RewardManager(cfg, env)
    torch.testing.assert_close(manager.compute(0.1), 0.1 * (2.0 * torch.arange(N) - 1.0))
    torch.testing.assert_close(manager.step_reward, torch.stack([2.0 * torch.arange(N), torch.full((N,), -1.0)], dim=1))


def test_weight_zero_skips_the_call_and_clears_the_column(env):
    calls = []

    def term(env):
        calls.append(1)
        return torch.ones(N)

    manager = RewardManager({"a": RewardTermCfg(func=term, weight=2.0)}, env)
    assert manager.compute(1.0).tolist() == [2.0] * N
    manager.get_term_cfg("a").weight = 0.0
    assert manager.compute(1.0).tolist() == [0.0] * N
    assert manager.step_reward.tolist() == [[0.0]] * N
    manager.weights = {"a": 3.0}
    assert manager.compute(1.0).tolist() == [3.0] * N
    assert len(calls) == 2


@pytest.mark.parametrize("weight", ["1", None, float("nan"), float("inf"), True])
def test_weight_must_be_a_number(env, weight):
    with pytest.raises(TermError, match="weight of reward term 'a' must be a finite number"):
        RewardManager({"a": RewardTermCfg(func=rows, weight=weight)}, env)
    manager = RewardManager({"a": RewardTermCfg(func=rows)}, env)
    with pytest.raises(TermError, match="weight of reward term 'a' must be a finite number"):
        manager.weights = {"a": weight}
    with pytest.raises(UnknownTermError, match="unknown reward term 'b'"):
        manager.weights = {"b": 1.0}


def test_log_is_the_mean_episode_sum_over_the_longest_duration(env):
    manager = RewardManager({"a": RewardTermCfg(func=rows, weight=2.0)}, env)
    for _ in range(3):
        manager.compute(0.1)
    log = manager.reset(torch.tensor([False, True, False, True, False]))
    assert log["Episode_Reward/a"].item() == pytest.approx((1 + 3) / 2 * 2.0 * 3 * 0.1 / env.max_episode_length_s)
    log = manager.reset(ALL)
    assert log["Episode_Reward/a"].item() == pytest.approx((0 + 2 + 4) / 5 * 2.0 * 3 * 0.1 / env.max_episode_length_s)


def test_log_of_an_empty_reset_is_zero(env):
    manager = RewardManager({"a": RewardTermCfg(func=rows)}, env)
    manager.compute(0.1)
    assert manager.reset(NONE)["Episode_Reward/a"].item() == 0.0


def test_logged_values_are_owned(env):
    manager = RewardManager({"a": RewardTermCfg(func=rows)}, env)
    manager.compute(0.1)
    value = manager.reset(ALL)["Episode_Reward/a"]
    before = value.item()
    manager.compute(0.1)
    manager.reset(ALL)
    assert value.item() == before > 0.0


def test_terms_that_are_not_finite_are_named_while_their_episode_runs(env):
    values = {"a": torch.zeros(N), "b": torch.zeros(N), "c": torch.zeros(N)}
    manager = RewardManager(
        {name: RewardTermCfg(func=lambda env, name: values[name], params={"name": name}) for name in values}, env
    )
    manager.compute(0.1)
    assert manager.non_finite_terms() == []
    values["b"][2], values["c"][0] = float("nan"), float("inf")
    manager.compute(0.1)
    values["b"][2] = values["c"][0] = 0.0
    manager.compute(0.1)
    assert manager.non_finite_terms() == ["b", "c"]
    manager.reset(torch.arange(N) == 0)
    assert manager.non_finite_terms() == ["b"]


def test_only_changed_weights_are_saved(env):
    def build(a, b):
        return RewardManager({n: RewardTermCfg(func=rows, weight=w) for n, w in (("a", a), ("b", b))}, env)

    manager = build(1.0, 2.0)
    manager.weights = {"b": 5.0}
    resumed = build(10.0, 2.0)
    resumed.load_state_dict(manager.state_dict())
    assert resumed.weights == {"a": 10.0, "b": 5.0}


def test_reward_reset_touches_the_masked_rows_only(env):
    manager = RewardManager({"a": RewardTermCfg(func=rows)}, env)
    assert check_masked_reset(manager, manager.reset, N) == {"_episode_sums"}


# Terminations -----------------------------------------------------------------------------------------------------


class Flags:
    """Termination terms whose values a test sets."""

    def __init__(self) -> None:
        self.fall, self.late = NONE.clone(), NONE.clone()

    def manager(self, env) -> TerminationManager:
        return TerminationManager(
            {
                "fall": TerminationTermCfg(func=lambda env: self.fall),
                "late": TerminationTermCfg(func=lambda env: self.late, time_out=True),
            },
            env,
        )


def test_terminated_and_time_outs_are_apart(env):
    flags = Flags()
    manager = flags.manager(env)
    flags.fall[0] = flags.late[0] = flags.late[1] = True
    dones = manager.compute()
    assert manager.terminated.tolist() == [True, False, False, False, False]
    assert manager.time_outs.tolist() == [True, True, False, False, False]
    assert dones.tolist() == manager.dones.tolist() == [True, True, False, False, False]
    assert manager.get_term("late").tolist() == [True, True, False, False, False]
    flags.fall.zero_(), flags.late.zero_()
    assert not manager.compute().any()


def test_non_finite_envs_are_terminated(env):
    manager = Flags().manager(env)
    env.physics.non_finite[3] = True
    assert manager.compute().tolist() == [False, False, False, True, False]
    assert manager.terminated[3] and not manager.time_outs[3]
    assert manager.get_term("non_finite").tolist() == [False, False, False, True, False]
    assert manager.reset(manager.dones)["Episode_Termination/non_finite"].item() == pytest.approx(0.2)


def test_log_is_the_share_of_all_environments_by_their_last_episode(env):
    flags = Flags()
    manager = flags.manager(env)
    flags.fall[:2] = True
    manager.reset(manager.compute())
    flags.fall.zero_()
    flags.late[0] = True
    log = manager.reset(manager.compute())
    values = {name: float(value) for name, value in log.items()}
    assert values == pytest.approx(
        {"Episode_Termination/fall": 0.2, "Episode_Termination/late": 0.2, "Episode_Termination/non_finite": 0.0}
    )


def test_buffers_keep_their_addresses(env):
    flags = Flags()
    manager = flags.manager(env)
    buffers = {name: getattr(manager, name) for name in ("terminated", "time_outs", "dones")}
    addresses = {name: buffer.data_ptr() for name, buffer in buffers.items()}
    flags.fall[0] = True
    manager.reset(manager.compute())
    assert {name: getattr(manager, name).data_ptr() for name in buffers} == addresses


def test_termination_must_be_bool(env):
    manager = TerminationManager({"t": TerminationTermCfg(func=lambda env: torch.zeros(N))}, env)
    with pytest.raises(TermError, match=r"termination term 't' must return a torch.bool tensor \(5,\), got"):
        manager.compute()


def test_termination_names(env):
    manager = Flags().manager(env)
    with pytest.raises(UnknownTermError, match="unknown termination term 'fal'. Did you mean 'fall'.*non_finite"):
        manager.get_term("fal")
    with pytest.raises(TermError, match="'non_finite': the name belongs to the built-in check"):
        TerminationManager({"non_finite": TerminationTermCfg(func=lambda env: NONE)}, env)
    with pytest.raises(TermError, match="termination term 't': time_out must be a bool, got 1"):
        TerminationManager({"t": TerminationTermCfg(func=lambda env: NONE, time_out=1)}, env)


def test_time_out_may_change_at_run_time(env):
    flags = Flags()
    manager = flags.manager(env)
    flags.fall[0] = True
    cfg = manager.get_term_cfg("fall")
    cfg.time_out = True
    manager.set_term_cfg("fall", cfg)
    manager.compute()
    assert manager.time_outs[0] and not manager.terminated[0]


def test_termination_reset_touches_no_other_row(env):
    manager = Flags().manager(env)
    check_masked_reset(manager, manager.reset, N)


# Metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "expected"), [("mean", -1.0), ("last", -3.0), ("max", 2.0), ("sum", -3.0)])
def test_metric_modes(env, mode, expected):
    values = iter([-2.0, 2.0, -3.0])
    cfg = MetricTermCfg(func=lambda env: torch.full((N,), next(values)), mode=mode)
    manager = MetricsManager({"m": cfg}, env)
    for _ in range(3):
        manager.compute()
    assert manager.reset(ALL)["Metrics/m"].item() == pytest.approx(expected)


def test_maximum_of_negative_values(env):
    manager = MetricsManager({"m": MetricTermCfg(func=lambda env: torch.full((N,), -2.0), mode="max")}, env)
    manager.compute()
    assert manager.reset(ALL)["Metrics/m"].item() == -2.0


def test_metric_takes_booleans_and_starts_anew_after_a_reset(env):
    manager = MetricsManager({"m": MetricTermCfg(func=lambda env: torch.arange(N) > 2, mode="sum")}, env)
    manager.compute()
    first = torch.tensor([True, False, False, True, False])
    assert manager.reset(first)["Metrics/m"].item() == pytest.approx(0.5)
    manager.compute()
    assert manager.reset(first)["Metrics/m"].item() == pytest.approx(0.5)
    assert manager.reset(~first)["Metrics/m"].item() == pytest.approx(2 / 3)
    assert manager.reset(NONE)["Metrics/m"].item() == 0.0


def test_unknown_metric_mode(env):
    with pytest.raises(TermError, match="metric term 'm': unknown mode 'avg'.*last, max, mean, sum"):
        MetricsManager({"m": MetricTermCfg(func=rows, mode="avg")}, env)


def test_metric_reset_touches_the_masked_rows_only(env):
    manager = MetricsManager({"m": MetricTermCfg(func=rows)}, env)
    assert check_masked_reset(manager, manager.reset, N) == {"_values", "_steps"}
