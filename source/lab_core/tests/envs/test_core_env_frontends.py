"""Which front end runs a configuration, with stand-ins for those of other packages."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lab_core.envs import FrontEndChoice, choose_frontend, frontends, make_env
from lab_core.errors import ConfigError
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def offer(monkeypatch, **refusals: str) -> list[str]:
    """Installs front ends by what they say of every configuration, and returns the list of those that build."""
    built: list[str] = []

    def module(name: str) -> SimpleNamespace:
        def build_env(cfg, device):
            built.append(name)
            return cfg.build(device)

        return SimpleNamespace(build_env=build_env, why_not=lambda cfg: refusals[name])

    group = SimpleNamespace(names=lambda: sorted(refusals), load=module)
    monkeypatch.setattr(frontends, "_FRONTENDS", group)
    return built


def test_one_that_is_installed_is_the_default(monkeypatch):
    built = offer(monkeypatch, fast="")
    cfg = analytic_cartpole_env_cfg(2)
    assert choose_frontend("auto", cfg).name == "fast"
    make_env(cfg)
    make_env(cfg, "cpu", "fast")
    make_env(cfg, "cpu", "torch")
    assert built == ["fast", "fast"]


def test_one_that_cannot_run_it_leaves_it_to_the_next_and_then_to_torch(monkeypatch):
    cfg = analytic_cartpole_env_cfg(2)
    offer(monkeypatch, fast="no twin", small="")
    assert choose_frontend("auto", cfg).name == "small"
    built = offer(monkeypatch, fast="no twin", small="too large")
    assert choose_frontend("auto", cfg) == FrontEndChoice("torch", "not fast: no twin; not small: too large")
    make_env(cfg)
    assert not built


def test_without_another_one_torch_runs(monkeypatch):
    offer(monkeypatch)
    assert choose_frontend("auto", analytic_cartpole_env_cfg(2)) == FrontEndChoice("torch", "no other one is installed")


def test_who_asks_for_one_gets_it_or_is_told_what_there_is(monkeypatch):
    offer(monkeypatch, fast="no twin")
    cfg = analytic_cartpole_env_cfg(2)
    assert choose_frontend("fast", cfg) == FrontEndChoice("fast", "as configured")
    assert choose_frontend("torch", cfg) == FrontEndChoice("torch", "as configured")
    with pytest.raises(ConfigError, match="unknown front end 'fats'. Did you mean 'fast'. Available: auto, fast, tor"):
        make_env(cfg, "cpu", "fats")
