from __future__ import annotations

import dataclasses

import pytest

from lab_core.agents import PPOCfg
from lab_core.errors import ConfigError, LabError
from lab_rl.algorithms.ppo import rsl_rl_cfg, settings


def test_every_setting_reaches_rsl_rl():
    cfg = PPOCfg(
        num_steps_per_env=7,
        actor_hidden_dims=(3, 5),
        critic_hidden_dims=(11,),
        activation="relu",
        init_std=0.3,
        obs_normalization=True,
        obs_groups={"actor": ("policy",), "critic": ("policy", "privileged")},
        learning_rate=2e-4,
        schedule="fixed",
        desired_kl=0.02,
        num_learning_epochs=2,
        num_mini_batches=6,
        gamma=0.9,
        lam=0.8,
        clip_param=0.1,
        entropy_coef=0.003,
        value_loss_coef=0.7,
        use_clipped_value_loss=False,
        max_grad_norm=0.4,
    )
    ours = rsl_rl_cfg(cfg)
    assert ours["algorithm"]["rnd_cfg"] is None and ours["algorithm"]["symmetry_cfg"] is None
    for name in ours["algorithm"].keys() - {"class_name", "rnd_cfg", "symmetry_cfg"}:
        assert ours["algorithm"][name] == getattr(cfg, name), name
        assert getattr(cfg, name) != getattr(PPOCfg(), name), name
    assert ours["actor"]["hidden_dims"] == [3, 5] and ours["critic"]["hidden_dims"] == [11]
    assert ours["actor"]["activation"] == ours["critic"]["activation"] == "relu"
    assert ours["actor"]["obs_normalization"] and ours["critic"]["obs_normalization"]
    assert ours["actor"]["distribution_cfg"]["init_std"] == 0.3
    assert ours["obs_groups"] == {"actor": ["policy"], "critic": ["policy", "privileged"]}
    assert ours["num_steps_per_env"] == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_steps_per_env": 0}, "agent.num_steps_per_env must be at least 1, got 0"),
        ({"max_iterations": -1}, "agent.max_iterations must be at least 1, got -1"),
        ({"learning_rate": 0.0}, "agent.learning_rate must be positive and finite, got 0.0"),
        ({"init_std": float("nan")}, "agent.init_std: got nan, expected a number"),
        ({"gamma": 1.5}, r"agent.gamma must be in 0 .. 1, got 1.5"),
        ({"clip_actions": -1.0}, "agent.clip_actions must be positive or None, got -1.0"),
        ({"obs_groups": {"actor": ("policy",)}}, r"keys 'actor' and 'critic', got \['actor'\]"),
        ({"schedule": "linear"}, "agent.schedule: got .linear. .*adaptive"),
        ({"activation": "elo"}, r"agent.activation: .*'elo'.*'elu'"),
    ],
)
def test_impossible_values_are_named(change, message):
    with pytest.raises(ConfigError, match=message):
        rsl_rl_cfg(dataclasses.replace(PPOCfg(), **change))


def test_another_release_of_rsl_rl_is_refused(monkeypatch):
    monkeypatch.setattr(settings, "version", lambda name: "6.0.0")
    with pytest.raises(LabError, match=r"lab_rl needs rsl-rl-lib 5\.5\.1, found 6\.0\.0"):
        rsl_rl_cfg(PPOCfg())
