"""Distribution and exact values of what a Warp environment draws in its step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lab_core.envs import ManagerBasedRLEnvCfg
from lab_core.managers import SLACK, EventTermCfg
from lab_core.signals import GaussianNoiseCfg, NoiseCfg, UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import rng_model

COLUMNS = 4


def make(noise: NoiseCfg | None, num_envs: int, device: str, **events: EventTermCfg) -> ManagerBasedRLEnvWarp:
    """An environment at rest whose observations are noise."""
    cfg = _at_rest(analytic_cartpole_env_cfg(num_envs, episode_length_s=1e3))
    group = cfg.observations["policy"]
    group.enable_corruption = True
    for term in group.terms.values():
        term.noise = noise
        term.scale = None
    cfg.events |= events
    return ManagerBasedRLEnvWarp(cfg, device)


def _at_rest(cfg: ManagerBasedRLEnvCfg) -> ManagerBasedRLEnvCfg:
    for event in cfg.events.values():
        assert event is not None
        event.params |= {"position_range": (0.0, 0.0), "velocity_range": (0.0, 0.0)}
    return cfg


def samples(env: ManagerBasedRLEnvWarp, steps: int) -> torch.Tensor:
    """(steps, N, columns) observations without motion."""
    actions = torch.zeros(env.num_envs, 1, device=env.device)
    return torch.stack([env.step(actions)[0]["policy"] for _ in range(steps)]).cpu().double()


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1])


@pytest.mark.parametrize(
    ("noise", "mean", "std"),
    [
        pytest.param(UniformNoiseCfg(n_min=-0.1, n_max=0.3), 0.1, 0.4 / 12**0.5, id="uniform"),
        pytest.param(GaussianNoiseCfg(mean=0.2, std=0.5), 0.2, 0.5, id="gaussian"),
    ],
)
def test_noise_has_its_range_and_moments_and_is_independent(noise, mean, std, device):
    """Over environments, columns and steps; 40,000 numbers, bounds at five standard errors."""
    values = samples(make(noise, 250, device), 40)
    bound = 5.0 / values.numel() ** 0.5
    assert abs(float(values.mean()) - mean) < std * bound
    assert float(values.std()) == pytest.approx(std, rel=5 * bound)
    if isinstance(noise, UniformNoiseCfg):
        assert noise.n_min <= values.min() < noise.n_min + 1e-3
        assert noise.n_max - 1e-3 < values.max() <= noise.n_max
        histogram = torch.histc(values.float(), bins=20, min=noise.n_min, max=noise.n_max).double()
        expected = values.numel() / 20
        chi2 = float(((histogram - expected) ** 2 / expected).sum())
        assert chi2 < 19 + 5 * (2 * 19) ** 0.5
    pairs = {
        "steps": (values[:-1], values[1:]),
        "environments": (values[:, :-1], values[:, 1:]),
        "columns": (values[..., :-1], values[..., 1:]),
    }
    for name, (a, b) in pairs.items():
        assert abs(correlation(a, b)) < 5.0 / a.numel() ** 0.5, name


def test_uniform_noise_equals_the_host_model(device):
    """Columns draw from branches of the environment's stream, which moves on by one number per step; the look at the
    end of a step leaves no trace."""
    low, high = -0.1, 0.3
    env = make(UniformNoiseCfg(n_min=low, n_max=high), 9, device)
    state = env.rng.state.numpy().copy()
    given = samples(env, 3).float().numpy()
    for step in range(3):
        for column in range(COLUMNS):
            sample, _ = rng_model.randf(rng_model.rand_init(state, column))
            expected = np.float32(high - low) * sample + np.float32(low)
            # The kernel may fuse the product and the sum.
            np.testing.assert_allclose(given[step, :, column], expected, rtol=0.0, atol=6e-8)
        _, state = rng_model.randu(state)
    np.testing.assert_array_equal(env.rng.state.numpy(), state)


def test_interval_timers_equal_the_host_model(device):
    """Timers of environments draw from their own streams, in the order of the terms; shared ones from another."""

    def nothing(env: Any, mask: torch.Tensor) -> None:
        pass

    own = EventTermCfg(func=nothing, mode="interval", interval_range_s=(0.02, 0.1))
    shared = EventTermCfg(func=nothing, mode="interval", interval_range_s=(0.02, 0.1), is_global_time=True)
    env = make(None, 9, device, own=own, shared=shared)
    streams = {"own": env.rng.state.numpy().copy(), "shared": env.rng.global_state.numpy().copy()}
    timers = {name: env.event_manager._time_left[name].cpu().numpy().copy() for name in streams}
    low, width, dt = np.float32(0.02), np.float32(0.1) - np.float32(0.02), np.float32(env.step_dt)
    fired = dict.fromkeys(streams, 0)
    for _ in range(30):
        samples(env, 1)
        for name, stream in streams.items():
            timers[name] -= dt
            expired = timers[name] <= SLACK * dt
            sample, advanced = rng_model.randf(stream)
            timers[name] = np.where(expired, width * sample + low, timers[name])
            streams[name] = np.where(expired, advanced, stream)
            fired[name] += int(expired.sum())
            np.testing.assert_allclose(env.event_manager._time_left[name].cpu().numpy(), timers[name], atol=2e-7)
            timers[name] = env.event_manager._time_left[name].cpu().numpy().copy()
    np.testing.assert_array_equal(env.rng.state.numpy(), streams["own"])
    np.testing.assert_array_equal(env.rng.global_state.numpy(), streams["shared"])
    assert fired["own"] > 9 * 5 and fired["shared"] > 5


def test_noise_that_is_switched_on_draws_as_in_a_fresh_environment(device):
    """In the new observations and in those of the end; switched off, it leaves the streams alone again."""
    noise = UniformNoiseCfg(n_min=-0.1, n_max=0.3)
    fresh, switched = make(noise, 9, device), make(None, 9, device)
    assert not samples(switched, 4).any()
    fresh.rng_state.copy_(switched.rng_state)  # it has drawn when it was built
    terms = switched.observation_manager
    for name in terms.term_names:
        terms.get_term_cfg(name).noise = noise
    actions = torch.zeros(9, 1, device=device)
    for _ in range(4):
        (expected, *_, expected_extras), (given, *_, extras) = fresh.step(actions), switched.step(actions)
        assert torch.equal(given["policy"], expected["policy"])
        assert torch.equal(extras["final_obs"]["policy"], expected_extras["final_obs"]["policy"])
    for name in terms.term_names:
        terms.get_term_cfg(name).noise = None
    assert not samples(switched, 3).any()
    assert torch.equal(switched.rng_state, fresh.rng_state)


def test_a_replay_advances_the_streams_as_an_eager_step_does(monkeypatch, device):
    values = []
    for capture in ("1", "0"):
        monkeypatch.setenv("LAB_CAPTURE", capture)
        values.append(samples(make(GaussianNoiseCfg(mean=0.0, std=1.0), 20, device), 10))
    assert torch.equal(*values) if device == "cpu" else torch.allclose(*values, atol=1e-6)
    assert values[0].unique().numel() == values[0].numel()
