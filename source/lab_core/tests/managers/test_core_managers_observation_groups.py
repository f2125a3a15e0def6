"""Observations: groups, shapes, bad configurations and changes at run time."""

from __future__ import annotations

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import (
    ObservationGroupCfg,
    ObservationManager,
    ObservationTermCfg,
    TermError,
    UnknownTermError,
)
from lab_core.signals import (
    BiasModifierCfg,
    ConstantNoiseCfg,
    NoiseWithBiasCfg,
    UniformNoiseCfg,
)
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5
ALL = torch.ones(N, dtype=torch.bool)


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N).build()


def columns(count: int):
    """An observation function with this many columns."""
    return lambda env: torch.zeros(N, count)


def one(env):
    return torch.ones(env.num_envs, 1)


def single(env, term: ObservationTermCfg, **group) -> ObservationManager:
    return ObservationManager({"policy": ObservationGroupCfg(terms={"term": term}, **group)}, env)


def observe(manager: ObservationManager, update: bool | torch.Tensor = True) -> torch.Tensor:
    value = manager.compute(update_history=update)["policy"]
    assert isinstance(value, torch.Tensor)
    return value


# Groups and shapes ------------------------------------------------------------------------------------------------


def test_shapes_are_known_at_construction(env):
    groups = {
        "policy": ObservationGroupCfg(
            terms={
                "a": ObservationTermCfg(func=columns(2)),
                "off": None,
                "b": ObservationTermCfg(func=columns(3), history_length=2),
            }
        ),
        "off": None,
        "critic": ObservationGroupCfg(terms={"c": ObservationTermCfg(func=columns(4))}, concatenate_terms=False),
    }
    manager = ObservationManager(groups, env)
    assert manager.term_names == ["policy/a", "policy/b", "critic/c"]
    assert manager.group_obs_dim == {"policy": (8,), "critic": {"c": (4,)}}
    assert manager.group_obs_term_dim == {"policy": {"a": (2,), "b": (6,)}, "critic": {"c": (4,)}}
    observations = manager.compute(update_history=True)
    assert list(observations) == ["policy", "critic"] and observations["policy"].shape == (N, 8)
    assert "policy/b" in str(manager) and "(6,)" in str(manager)
    assert groups["policy"].terms["b"].history_length == 2


def test_concatenation_along_another_axis(env):
    terms = {name: ObservationTermCfg(func=lambda env, k=k: torch.zeros(N, k, 4)) for name, k in (("a", 2), ("b", 3))}
    for dim in (0, -2):
        manager = ObservationManager({"policy": ObservationGroupCfg(terms=terms, concatenate_dim=dim)}, env)
        assert manager.group_obs_dim == {"policy": (5, 4)}


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (3, "observation group 'policy': expected ObservationGroupCfg, got int"),
        (ObservationGroupCfg(terms={"a": None}), "observation group 'policy' has no terms"),
        (
            ObservationGroupCfg(terms={"a": ObservationTermCfg(func=one)}, history_order="tme", history_length=2),
            "observation group 'policy': history_order must be 'term' or 'time', got 'tme'",
        ),
        (
            ObservationGroupCfg(terms={"a": ObservationTermCfg(func=one)}, history_order="time"),
            "history_order='time' needs a history_length of the group",
        ),
        (
            ObservationGroupCfg(
                terms={
                    "a": ObservationTermCfg(func=one),
                    "b": ObservationTermCfg(func=lambda env: torch.zeros(N, 2, 3)),
                }
            ),
            r"group 'policy' cannot be concatenated along axis -1: {'a': \(1,\), 'b': \(2, 3\)}",
        ),
        (
            ObservationGroupCfg(terms={"a": ObservationTermCfg(func=one)}, concatenate_dim=3),
            "group 'policy' cannot be concatenated along axis 3",
        ),
    ],
)
def test_bad_group(env, group, message):
    with pytest.raises(TermError, match=message):
        ObservationManager({"policy": group}, env)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"func": lambda env: torch.zeros(N)}, r"must return a tensor \(5, D, ...\), got \(5,\)"),
        ({"func": lambda env: torch.zeros(N + 1, 2)}, r"must return a tensor \(5, D, ...\), got \(6, 2\)"),
        ({"func": lambda env: None}, "must return a tensor .*, got NoneType"),
        ({"func": one, "scale": (1.0, 2.0)}, "scale has 2 values, the term has 1 components"),
        ({"func": one, "scale": float("nan")}, "scale must be a finite number"),
        ({"func": one, "clip": (1.0, -1.0)}, "clip must have low <= high"),
        ({"func": one, "clip": 1.0}, r"clip must be \(low, high\), got 1.0"),
        ({"func": one, "noise": 0.1}, "expected a NoiseCfg, got float"),
        ({"func": one, "modifiers": [0.1]}, "expected a ModifierCfg, got float"),
        ({"func": one, "delay_min_lag": 3, "delay_max_lag": 1}, "0 <= delay_min_lag <= delay_max_lag, got 3 and 1"),
        ({"func": one, "delay_hold_prob": 1.0}, "delay_hold_prob must be in 0 .. 1, below 1, got 1.0"),
        ({"func": one, "history_length": -1}, "history_length must not be negative, got -1"),
    ],
)
def test_bad_term_names_group_and_term(env, settings, message):
    with pytest.raises(TermError, match=f"observation term 'policy/term'.*{message}"):
        single(env, ObservationTermCfg(**settings))


# Run-time changes -------------------------------------------------------------------------------------------------


def test_edits_act_on_the_next_call(env):
    noise = ConstantNoiseCfg(bias=1.0)
    manager = single(env, ObservationTermCfg(func=one, noise=noise, scale=1.0), enable_corruption=True)
    cfg = manager.get_term_cfg("policy/term")
    assert observe(manager).tolist() == [[2.0]] * N
    cfg.scale = (3.0,)
    assert observe(manager).tolist() == [[6.0]] * N
    cfg.scale = (4.0,)
    cfg.clip = (0.0, 1.5)
    assert observe(manager).tolist() == [[6.0]] * N
    cfg.noise.bias = -0.5
    assert observe(manager).tolist() == [[2.0]] * N
    cfg.noise = ConstantNoiseCfg(bias=0.0)
    assert observe(manager).tolist() == [[4.0]] * N
    cfg.noise = None
    assert observe(manager).tolist() == [[4.0]] * N


def test_set_term_cfg_keeps_memory_of_what_did_not_change(env):
    noise = NoiseWithBiasCfg(noise=ConstantNoiseCfg(bias=0.0), bias=UniformNoiseCfg(n_min=1.0, n_max=2.0))
    term = ObservationTermCfg(func=one, noise=noise, history_length=2)
    manager = single(env, term, enable_corruption=True)
    manager.reset(ALL)
    first = observe(manager)
    cfg = ObservationTermCfg(func=one, noise=noise, history_length=2, scale=2.0)
    manager.set_term_cfg("policy/term", cfg)
    assert torch.equal(observe(manager), torch.stack([first[:, 1], 2.0 * first[:, 1]], dim=1))
    other = NoiseWithBiasCfg(noise=ConstantNoiseCfg(bias=0.0), bias=UniformNoiseCfg(n_min=5.0, n_max=6.0))
    manager.set_term_cfg("policy/term", ObservationTermCfg(func=one, noise=other, history_length=2))
    newest = observe(manager)[:, 1]
    assert ((newest >= 6.0) & (newest <= 7.0)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"history_length": 3}, "history_length cannot change"),
        ({"delay_max_lag": 3}, "delay_max_lag cannot change"),
        ({"flatten_history": False}, "flatten_history cannot change"),
        ({"delay_hold_prob": 0.1}, "the use of delay_hold_prob cannot change"),
        ({"modifiers": [BiasModifierCfg(offset=2.0)]}, "modifiers cannot change"),
        ({"scale": (1.0, 2.0)}, "scale has 2 values"),
    ],
)
def test_what_decides_shapes_and_memory_is_fixed(env, change, message):
    manager = single(env, ObservationTermCfg(func=one))
    with pytest.raises(TermError, match=f"observation term 'policy/term': {message}"):
        manager.set_term_cfg("policy/term", ObservationTermCfg(func=one, **change))
    assert observe(manager).tolist() == [[1.0]] * N


def test_new_function_must_keep_the_shape(env):
    manager = single(env, ObservationTermCfg(func=one))
    manager.set_term_cfg("policy/term", ObservationTermCfg(func=lambda env: torch.zeros(N, 2)))
    with pytest.raises(TermError, match=r"'policy/term' must return a number tensor \(5, 1\), got .* \(5, 2\)"):
        observe(manager)


def test_unknown_term_lists_the_existing(env):
    with pytest.raises(UnknownTermError, match="unknown observation term 'term'.*policy/term"):
        single(env, ObservationTermCfg(func=one)).get_term_cfg("term")
