"""Recording a Warp environment: the run does not notice, and the data are those of the torch front end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lab_core.envs import ManagerBasedRLEnvCfg, RLEnv
from lab_core.managers import ManagerTermBase
from lab_core.recorder import (
    EpisodeCollector,
    RecorderCfg,
    RecorderHooks,
    RecorderManager,
    RecorderTermCfg,
    Transition,
    transition_terms,
)
from lab_core.signals import UniformNoiseCfg
from lab_core.testing import analytic_cartpole_env_cfg
from lab_warp.envs import ManagerBasedRLEnvWarp, WarpRLEnv
from lab_warp.testing import assert_same_results, rollout, same_bits, step_report

N = 6


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
    env.set_recorder(RecorderManager(RecorderCfg(terms=transition_terms() | extra), env, [collector]))
    return collector


def test_recording_changes_nothing(device):
    recorded = ManagerBasedRLEnvWarp(cartpole(), device)
    collector = record(recorded)
    plain = ManagerBasedRLEnvWarp(cartpole(), device)
    assert_same_results(rollout(recorded, 80, scale=3.0), rollout(plain, 80, scale=3.0))
    assert len(collector.episodes) > 2 * N
    hooks = [f"record_{phase}" for phase in ("pre_step", "pre_physics", "post_physics", "post_step", "post_reset")]
    on_cpu = [f"recorder: {hook} (torch cannot be captured on the CPU)" for hook in hooks]
    assert recorder_islands(recorded) == ([] if device == "cuda:0" else on_cpu)
    assert recorder_islands(plain) == []


def recorder_islands(env: WarpRLEnv) -> list[str]:
    """What of the recorder runs between graphs, as the report says it."""
    return [island for island in step_report(env).islands if "recorder" in island]


def test_captured_and_eager_steps_store_the_live_values_byte_for_byte(device, monkeypatch):
    def run(watched: bool) -> EpisodeCollector:
        env = ManagerBasedRLEnvWarp(cartpole(), device)
        collector, live = record(env), defaultdict(list)
        recorder = env.recorder_manager
        assert isinstance(recorder, RecorderManager)
        if watched:
            recorder.add_consumer(
                lambda transition: [live[key].append(value.clone()) for key, value in transition.values.items()]
            )
        rollout(env, 60, scale=3.0)
        env.close()
        for episode in collector.episodes if watched else ():
            first = episode.info.start_step
            rows = slice(first, first + episode.info.length)
            for key, value in episode.steps.items():
                assert same_bits(value, torch.stack(live[key][rows])[:, episode.info.env_id]), key
            for key, value in episode.initial.items():
                assert same_bits(value, live[key][first][episode.info.env_id]), key
        return collector

    expected = run(watched=True)
    captured = run(watched=False)  # on a GPU nothing of the recorder is between two graphs
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = run(watched=True)
    assert len(expected.episodes) > 2 * N
    for other in (captured, eager):
        assert [episode.info for episode in other.episodes] == [episode.info for episode in expected.episodes]
        for a, b in zip(other.episodes, expected.episodes, strict=True):
            assert all(same_bits(a.steps[key], b.steps[key]) for key in b.steps)
            assert all(same_bits(a.initial[key], b.initial[key]) for key in b.initial)


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
    """The step records anew where one comes, is replaced, or goes: graphs hold its buffers."""
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
    env.set_recorder(RecorderHooks())
    steps(30)
    assert all(torch.equal(a, b["obs.policy"]) for a, b in zip(results, expected, strict=True))
    assert count > 0 and len(first.episodes) == count and len(second.episodes) > 0
    assert step_report(env).num_captures == 4


class lengths_at_reset(ManagerTermBase):
    """How many steps the ended episodes had, as the counter of the environment says at their reset."""

    def __init__(self, cfg: Any, env: Any) -> None:
        super().__init__(cfg, env)
        self.length = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)

    def __call__(self, env: Any) -> torch.Tensor:
        return self.length

    def reset(self, mask: torch.Tensor) -> None:
        self.length.copy_(torch.where(mask, self._env.episode_length_buf, self.length))


def lengths(env: RLEnv) -> torch.Tensor:
    return env.recorder_manager.terms._class_terms["length"].length.clone()


@pytest.mark.parametrize("capturable", [False, True])
def test_class_terms_of_a_recorder_hear_of_resets_before_the_counter_is_cleared(device, capturable):
    """At the place where the torch front end tells them."""
    found = []
    for build in (lambda cfg: cfg.build(device), lambda cfg: ManagerBasedRLEnvWarp(cfg, device)):
        env = build(cartpole(certain=True))
        term = RecorderTermCfg(func=lengths_at_reset, phase="post_step", capturable=capturable)
        record(env, length=term)
        steps = []
        for _ in range(60):
            env.step(torch.ones(N, 1, device=env.device))
            steps.append(lengths(env))
        env.reset(mask=[1])
        found.append(torch.stack([*steps, lengths(env)]))
        if isinstance(env, WarpRLEnv):
            expected = (device == "cuda:0" and capturable) == (not recorder_islands(env))
            assert expected, recorder_islands(env)
    assert torch.equal(*found)
    assert found[0].unique().tolist() == [0, 12, 24]  # none has ended; cut off by hand; 24 steps are an episode


def cart(env: Any) -> torch.Tensor:
    return env.scene["robot"].data.joint_pos[:, 0]


def is_central(env: Any) -> torch.Tensor:
    return cart(env).abs() < 0.5


def test_the_report_tells_what_of_a_recorder_runs_between_graphs_and_why(device):
    """Terms of users, consumers and functions that decide on success, unless they are marked."""

    def islands(consumers: tuple[Callable[..., object], ...] = (), marked: bool = False) -> list[str]:
        env = ManagerBasedRLEnvWarp(cartpole(), device)
        term = RecorderTermCfg(func=cart, phase="post_step", capturable=marked)
        cfg = RecorderCfg(terms=transition_terms() | {"cart": term}, success=is_central, success_capturable=marked)
        recorder = RecorderManager(cfg, env, [EpisodeCollector()])
        env.set_recorder(recorder)
        for consumer in consumers:
            recorder.add_consumer(consumer)
        rollout(env, 3)
        found = recorder_islands(env)
        assert step_report(env).num_graphs == len(step_report(env).islands) + 1
        return [island for island in found if "torch cannot be captured on the CPU" not in island]

    class Reader:
        def read(self, transition: Transition) -> None:
            pass

    assert islands(consumers=(Reader().read,)) == [
        "recorder term 'cart': capturable is not set",
        "recorder consumer read: it is called as Python code",
        "recorder success: success_capturable is not set",
    ]
    assert islands(marked=True) == []


def test_hooks_of_a_subclass_are_called_in_every_step(device):
    calls = []

    class Watching(RecorderManager):
        def record_post_step(self) -> None:
            super().record_post_step()
            calls.append(self.transition.step)

    env = ManagerBasedRLEnvWarp(cartpole(), device)
    env.set_recorder(Watching(RecorderCfg(terms=transition_terms()), env, [EpisodeCollector()]))
    rollout(env, 5)
    assert calls == list(range(5))
    assert [len(env.recorder_manager.get_episode(world)) for world in range(N)] == [5] * N
    (island,) = [island for island in recorder_islands(env) if "post_step" in island]
    assert island == "recorder: record_post_step: Watching does not tell its parts"


def test_what_is_added_while_it_runs_is_recorded_too(device):
    """A consumer, a changed term and a key that no term records make the step record anew."""
    env = ManagerBasedRLEnvWarp(cartpole(), device)
    record(env, cart=RecorderTermCfg(func=cart, phase="post_step", capturable=True))
    recorder, steps = env.recorder_manager, []
    assert isinstance(recorder, RecorderManager)
    rollout(env, 3)
    recorder.add_consumer(lambda transition: steps.append(transition.step))
    rollout(env, 3)
    recorder.terms.set_term_cfg("cart", RecorderTermCfg(func=minus_cart, phase="post_step", capturable=True))
    rollout(env, 2)
    for value in (1.0, 2.0):
        recorder.add_to_episodes("note", torch.full((N,), value, device=env.device))
        rollout(env, 1)
    episode = recorder.get_episode(0)
    positions = episode.steps["states/articulation/robot/joint_position"][:, 0]
    sign = torch.tensor([1.0] * 6 + [-1.0] * 4, device=env.device)
    assert steps == list(range(3, 10))
    assert torch.equal(episode.steps["cart"], sign * positions)
    assert episode.steps["valid/note"].tolist() == [False] * 7 + [True, True, False]
    assert episode.steps["note"].tolist()[7:9] == [1.0, 2.0]


def minus_cart(env: Any) -> torch.Tensor:
    return -cart(env)


def test_a_closed_recorder_records_nothing_more(device):
    env = ManagerBasedRLEnvWarp(cartpole(), device)
    collector = record(env)
    rollout(env, 5)
    recorder = env.recorder_manager
    assert isinstance(recorder, RecorderManager)
    before = recorder.transition.values["states/articulation/robot/joint_position"].clone()
    recorder.close()
    rollout(env, 5)
    assert torch.equal(recorder.transition.values["states/articulation/robot/joint_position"], before)
    assert [len(episode) for episode in collector.episodes] == [5] * N
    assert recorder_islands(env) == []


def test_a_step_that_an_error_cuts_off_ends_all_episodes_only_if_it_was_inserted(device):
    """Also where a graph has inserted it, and the host was not there."""
    env = ManagerBasedRLEnvWarp(cartpole(), device)
    collector = record(env)
    recorder = env.recorder_manager
    assert isinstance(recorder, RecorderManager)
    fails = []

    def fail(transition: Transition) -> None:
        if fails:
            raise RuntimeError(fails.pop())

    recorder.add_consumer(fail)
    rollout(env, 4)
    fails.append("behind the insertion")
    with pytest.raises(RuntimeError, match="behind the insertion"):
        rollout(env, 1)
    assert [len(recorder.get_episode(world)) for world in range(N)] == [4] * N
    rollout(env, 3)
    assert [(len(episode), episode.info.complete) for episode in collector.episodes] == [(5, False)] * N
    assert [len(recorder.get_episode(world)) for world in range(N)] == [3] * N


class Kernels(TorchDispatchMode):
    """Counts the torch operations that a GPU would launch a kernel for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not getattr(func, "is_view", False) and func.overloadpacket.__name__ not in NO_KERNELS:
            self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


NO_KERNELS = ("detach", "_unsafe_view", "empty", "empty_like", "_reshape_alias")


def test_a_recorded_step_is_few_launches():
    """Each small kernel of a graph takes some 2 us; the budget of a step is 0.2 ms."""
    env = cartpole().build()
    record(env)
    recorder, mask = env.recorder_manager, env.reset_buf
    env.step(torch.zeros(N, 1))
    with Kernels() as kernels:
        recorder.record_pre_step()
        recorder.record_pre_physics()
        recorder.record_post_physics()
        recorder.record_post_step()
        recorder.record_post_reset(mask)
    assert len(kernels.names) <= 30, kernels.names
