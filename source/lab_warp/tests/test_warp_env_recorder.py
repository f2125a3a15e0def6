"""Recording a Warp environment: the run does not notice, and the data are those of the torch front end."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnvCfg, RLEnv
from lab_core.managers import ManagerTermBase, NullRecorderManager
from lab_core.recorder import EpisodeCollector, RecorderCfg, RecorderManager, RecorderTermCfg
from lab_core.recorder.presets import transition_terms
from lab_core.signals import UniformNoiseCfg
from lab_core.testing.cartpole import analytic_cartpole_env_cfg
from lab_warp.envs import ManagerBasedRLEnvWarp
from lab_warp.testing import assert_same_results, rollout, step_report

CUDA = pytest.param(
    "cuda:0",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
)
N = 6


@pytest.fixture(params=["cpu", CUDA])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def cartpole(certain: bool = False) -> ManagerBasedRLEnvCfg:
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=0.4)
    if certain:
        for event in cfg.events.values():
            assert event is not None
            event.params |= {"position_range": (0.3, 0.3), "velocity_range": (0.1, 0.1)}
        return cfg
    cfg.observations["policy"].enable_corruption = True
    for term in cfg.observations["policy"].terms.values():
        term.noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
    return cfg


def record(env: RLEnv, **extra: RecorderTermCfg) -> EpisodeCollector:
    """Attaches a recorder; returns where its episodes go."""
    collector = EpisodeCollector()
    env.recorder_manager = RecorderManager(RecorderCfg(terms=transition_terms() | extra), env, [collector])
    return collector


def test_recording_changes_nothing(device):
    recorded = ManagerBasedRLEnvWarp(cartpole(), device)
    collector = record(recorded)
    plain = ManagerBasedRLEnvWarp(cartpole(), device)
    assert_same_results(rollout(recorded, 80, scale=3.0), rollout(plain, 80, scale=3.0))
    assert len(collector.episodes) > 2 * N
    assert [island for island in step_report(recorded).islands if island.startswith("recorder")] == [
        f"recorder: {hook}"
        for hook in (
            *("record_pre_step", "record_pre_physics", "record_post_step", "record_pre_reset"),
            *("reset", "record_post_reset"),
        )
    ]
    assert not [island for island in step_report(plain).islands if island.startswith("recorder")]


def test_the_data_are_those_of_the_torch_front_end():
    """Where nothing is left to chance. Floating-point numbers to rounding, everything else exactly."""
    episodes = []
    for build in (lambda cfg: cfg.build(), ManagerBasedRLEnvWarp):
        env = build(cartpole(certain=True))
        collector = record(env)
        rollout(env, 60, scale=3.0)
        episodes.append(collector.episodes)
    expected, given = episodes
    assert len(given) == len(expected) > N
    for ours, theirs in zip(given, expected, strict=True):
        assert ours.info == theirs.info
        assert ours.steps.keys() == theirs.steps.keys() and ours.initial.keys() == theirs.initial.keys()
        for name, value in {**theirs.steps, **theirs.initial}.items():
            found = {**ours.steps, **ours.initial}[name]
            torch.testing.assert_close(
                found, value, rtol=1e-4, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
            )


def test_a_recorder_may_come_and_go_while_the_environment_runs(device):
    """The step records anew where one comes or goes, and not where another takes its place."""
    env = ManagerBasedRLEnvWarp(cartpole(), device)
    expected = rollout(ManagerBasedRLEnvWarp(cartpole(), device), 120, scale=3.0)
    generator = torch.Generator().manual_seed(0)
    results = []

    def steps(number: int) -> None:
        for _ in range(number):
            action = 3.0 * torch.randn(N, 1, generator=generator)
            results.append(env.step(action.to(env.device))[0]["policy"])

    steps(30)
    first = record(env)
    steps(30)
    count = len(first.episodes)
    second = record(env)
    steps(30)
    env.recorder_manager = NullRecorderManager()
    steps(30)
    assert all(torch.equal(a, b["obs.policy"]) for a, b in zip(results, expected, strict=True))
    assert count > 0 and len(first.episodes) == count and len(second.episodes) > 0
    assert step_report(env).num_recordings == 3


class counted_episodes(ManagerTermBase):
    """How many episodes each environment has begun."""

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self.count = torch.zeros(env.num_envs, device=env.device)

    def __call__(self, env: Any) -> torch.Tensor:
        return self.count

    def reset(self, mask: torch.Tensor) -> None:
        self.count += mask


def test_class_terms_of_a_recorder_hear_of_resets():
    counts = []
    for build in (lambda cfg: cfg.build(), ManagerBasedRLEnvWarp):
        env = build(cartpole(certain=True))
        record(env, count=RecorderTermCfg(func=counted_episodes, phase="post_step"))
        rollout(env, 60, scale=3.0)
        env.reset(mask=[1])
        counts.append(env.recorder_manager._class_terms["count"].count.clone())
    assert torch.equal(*counts)
    assert counts[0].min() >= 2
