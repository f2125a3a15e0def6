"""Errors in the middle of a step, of a sink and of a writer: what is recorded afterwards is still true."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from lab_core.datasets import DatasetCfg, RecordedDataset
from lab_core.datasets.at_exit import _close_all
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import ManagerTermBase, TermError, TerminationTermCfg
from lab_core.recorder import (
    EpisodeBatch,
    EpisodeCollector,
    MaskedRows,
    RecorderCfg,
    RecorderError,
    RecorderManager,
    RecorderTermCfg,
    RetentionCfg,
)
from lab_core.recorder.presets import transition_terms
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 4
POSITION = "articulation/robot/joint_position"


class Failing(EpisodeCollector):
    """Fails at chosen calls."""

    def __init__(self, writes: tuple[int, ...] = (), closing: bool = False) -> None:
        super().__init__()
        self._writes, self._closing, self.calls, self.closed = writes, closing, 0, 0

    def write(self, batch) -> None:
        self.calls += 1
        if self.calls in self._writes:
            raise ZeroDivisionError
        super().write(batch)

    def close(self) -> None:
        self.closed += 1
        if self._closing:
            raise ZeroDivisionError


def some_ends(env) -> torch.Tensor:
    """About one episode in three steps."""
    generator = torch.Generator().manual_seed(env.step_count)
    return torch.rand(env.num_envs, generator=generator) < 0.3


def make(steps: int = 30, sinks=None, ends=some_ends, **changes) -> tuple[ManagerBasedRLEnv, EpisodeCollector]:
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=steps / 60)
    cfg.terminations = {"time_out": cfg.terminations["time_out"]}
    if ends is not None:
        cfg.terminations["some"] = TerminationTermCfg(func=ends)
    env = cfg.build()
    collector = EpisodeCollector()
    settings = RecorderCfg(**({"terms": transition_terms()} | changes))
    env.set_recorder(RecorderManager(settings, env, [collector] if sinks is None else sinks))
    return env, collector


def run(env: ManagerBasedRLEnv, steps: int) -> int:
    """Steps on after every error; returns how many there were."""
    generator, errors = torch.Generator().manual_seed(0), 0
    for _ in range(steps):
        try:
            env.step(torch.randn(N, 1, generator=generator))
        except ZeroDivisionError:
            errors += 1
    return errors


def check_episodes(episodes) -> None:
    """Every episode begins where it says, has no gap, and ends in its last step."""
    for episode in episodes:
        before, after = (episode.steps[f"{key}/{POSITION}"] for key in ("pre_states", "states"))
        assert torch.equal(before[0], episode.initial[f"initial_state/{POSITION}"]), episode.info
        assert torch.equal(before[1:], after[:-1]), episode.info
        assert not episode.steps["dones"][:-1].any(), episode.info


@pytest.mark.parametrize("stage", ["_compute_reward", "_compute_commands"])
def test_episodes_are_true_after_errors_before_and_behind_the_reset(monkeypatch, stage):
    env, collector = make()
    original = getattr(env, stage)

    def fail_at_times() -> None:
        original()
        if env.step_count % 7 == 3:
            raise ZeroDivisionError

    monkeypatch.setattr(env, stage, fail_at_times)
    assert run(env, 60) > 5
    assert len(collector.episodes) > 60
    check_episodes(collector.episodes)


def test_a_step_that_an_error_cuts_off_ends_all_episodes():
    """What is recorded afterwards belongs together, although the environment was left in the middle of a step."""
    env, collector = make(steps=100, ends=None)
    actions = iter(range(100))

    def step() -> None:
        env.step(torch.full((N, 1), float(next(actions))))

    def fail(transition) -> None:
        if len(failures) == 0 and transition.step == 3:
            failures.append(transition.step)
            raise ZeroDivisionError

    failures = []
    env.recorder_manager.add_consumer(fail)
    for _ in range(3):
        step()
    with pytest.raises(ZeroDivisionError):
        step()
    for _ in range(4):
        step()
    env.close()
    episodes = collector.episodes
    assert [(len(episode), episode.info.complete) for episode in episodes] == [(4, False)] * 2 * N
    assert episodes[0].steps["actions"].flatten().tolist() == [0, 1, 2, 3]
    assert episodes[N].steps["actions"].flatten().tolist() == [4, 5, 6, 7]


def test_closing_after_an_error_keeps_the_step_that_the_ring_holds():
    """Else it would stand in the place of the oldest step, unnoticed."""
    env, collector = make(steps=100, ends=None, retention=RetentionCfg(max_episode_length=5, on_overflow="drop_oldest"))

    def fail(transition) -> None:
        if transition.step == 8:
            raise ZeroDivisionError

    env.recorder_manager.add_consumer(fail)
    assert run(env, 9) == 1
    env.close()
    assert [(len(episode), episode.info.dropped_steps) for episode in collector.episodes] == [(5, 4)] * N
    for episode in collector.episodes:
        before, after = (episode.steps[f"{key}/{POSITION}"] for key in ("pre_states", "states"))
        assert torch.equal(before[1:], after[:-1])


def test_a_subclass_that_extends_the_first_hook_does_not_end_episodes():
    class Extended(RecorderManager):
        def record_pre_step(self) -> None:
            super().record_pre_step()

    env, _ = make(ends=None)
    manager = Extended(RecorderCfg(terms=transition_terms()), env)
    env.set_recorder(manager)
    manager.begin_step()  # as a front end that records graphs does
    manager.record_pre_step()
    manager.record_post_step()
    manager.finish_step()
    run(env, 3)
    assert len(manager.get_episode(0)) == 4


def test_a_sink_that_fails_costs_its_episodes_and_no_others():
    sink = Failing(writes=(2, 5))
    env, _ = make(sinks=[sink])
    assert run(env, 60) == 2
    check_episodes(sink.episodes)
    counts = env.recorder_manager.counts
    assert counts.ended > counts.exported == len(sink.episodes) > 50
    env.close()
    assert sink.closed == 1


def test_all_sinks_are_closed_whatever_one_of_them_does(tmp_path):
    bad = Failing(closing=True)
    env, _ = make(sinks=[bad, good := Failing()], dataset=DatasetCfg(folder=tmp_path))
    run(env, 5)
    with pytest.raises(ZeroDivisionError):
        env.close()
    assert (bad.closed, good.closed) == (1, 1)
    assert not RecordedDataset(tmp_path).notices


def test_all_recorders_are_closed_at_exit_whatever_one_of_them_does():
    sinks = [Failing(closing=True), Failing(closing=True)]
    environments = [make(sinks=[sink])[0] for sink in sinks]
    with pytest.raises(ZeroDivisionError):
        _close_all()
    assert [sink.closed for sink in sinks] == [1, 1]
    assert len(environments) == 2


def test_a_copy_from_the_gpu_that_fails_is_reported(tmp_path, monkeypatch):
    """It must not end the thread: the environment would wait for it for ever."""

    def lost() -> None:
        raise RuntimeError("the GPU is lost")

    monkeypatch.setattr(EpisodeBatch, "to_host", lambda batch: (batch, lost))
    env, _ = make(dataset=DatasetCfg(folder=tmp_path))
    with pytest.raises(RecorderError, match="dataset-00000.hdf5: RuntimeError: the GPU is lost.* are lost"):
        for _ in range(60):
            run(env, 1)
        env.close()


def test_an_index_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    from lab_core.datasets import index as shard_index

    def full(path, data) -> None:
        raise OSError(28, "No space left on device", str(path))

    env, _ = make(dataset=DatasetCfg(folder=tmp_path))
    run(env, 5)
    monkeypatch.setattr(shard_index, "save_bytes", full)
    with pytest.raises(RecorderError, match=r"cannot write .*/dataset.index.json: No space left.* Saved are 1 files"):
        env.close()


def test_recordings_whose_names_begin_alike_are_apart(tmp_path):
    """``run-1-00000.hdf5`` belongs to ``run-1``, whatever happens to ``run``."""

    def record(name: str, **settings) -> None:
        env, _ = make(dataset=DatasetCfg(folder=tmp_path, name=name, **settings))
        run(env, 10)
        env.close()

    record("run-1")
    (tmp_path / ".run-1-00001.hdf5.partial").touch()
    episodes = len(RecordedDataset(tmp_path, "run-1"))
    record("run")
    record("run", existing="overwrite")
    assert len(RecordedDataset(tmp_path, "run-1")) == episodes > 5
    assert not RecordedDataset(tmp_path, "run").notices
    assert "unfinished file" in RecordedDataset(tmp_path, "run-1").notices[0]
    record("run-1", existing="resume")
    assert not RecordedDataset(tmp_path, "run-1").notices


def test_a_loaded_state_brings_its_own_step_counter():
    env, collector = make(ends=None)
    run(env, 3)
    state = env.state_dict()
    state["environment"]["step_count"] = 1000
    env.load_state_dict(state)
    run(env, 2)
    env.close()
    assert [episode.info.start_step for episode in collector.episodes] == [0] * N + [1000] * N


@pytest.mark.parametrize("value", [torch.zeros(N), torch.zeros(3, dtype=torch.bool), True])
def test_a_wrong_success_is_named(value):
    env, _ = make(success=lambda env: value)
    with pytest.raises(TermError, match=r"recorder.success must return a torch.bool tensor \(4,\), got"):
        env.step(torch.zeros(N, 1))


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (torch.full((N,), 0.5), r"'x' holds torch.int64, got torch.float32, which would lose values"),
        (torch.zeros(N, dtype=torch.int64, device="meta"), "'x' must be on cpu, got a tensor on meta"),
    ],
)
def test_a_term_whose_values_would_be_changed_is_named(later, message):
    values = iter([torch.zeros(N, dtype=torch.int64), torch.ones(N, dtype=torch.int32), later])
    env, _ = make(terms={"x": RecorderTermCfg(func=lambda env: next(values), phase="post_step")})
    run(env, 1)
    with pytest.raises(TermError, match=f"recorder term 'x': recorded key {message}"):
        run(env, 1)


def test_a_wrong_mask_is_named():
    mask = torch.ones(N, dtype=torch.bool)
    values = iter([MaskedRows(torch.zeros(N), mask), MaskedRows(torch.zeros(N), mask[:, None])])
    env, _ = make(terms={"x": RecorderTermCfg(func=lambda env: next(values), phase="post_step")})
    with pytest.raises(TermError, match=r"the mask of recorded key 'x' must be a bool tensor \(4,\), got"):
        run(env, 1)


class Buffered(ManagerTermBase):
    """Returns a buffer of its own."""

    def __init__(self, cfg, env) -> None:
        super().__init__(cfg, env)
        self._buffer = torch.full((env.num_envs,), float(cfg.params["value"]))

    def __call__(self, env, value: float) -> torch.Tensor:
        return self._buffer


def test_a_replaced_term_lives_until_no_graph_uses_it():
    """A consumer may replace a term while graphs of the step, which do not keep tensors, are still to run."""

    def term(value: float) -> RecorderTermCfg:
        return RecorderTermCfg(func=Buffered, params={"value": value}, phase="post_reset", key="x")

    env, _ = make(terms={"x": term(1.0)}, ends=None)
    recorder = env.recorder_manager
    old = weakref.ref(recorder.terms._class_terms["x"])
    recorder.add_consumer(lambda transition: transition.step or recorder.terms.set_term_cfg("x", term(2.0)))
    run(env, 1)
    gc.collect()
    assert old() is not None
    run(env, 1)
    gc.collect()
    assert old() is None


def test_a_rebuild_of_the_physics_ends_the_running_episodes():
    """It puts all environments into their default state, which no action did."""
    env, collector = make(ends=None)
    run(env, 3)
    env.physics.rebuild()
    run(env, 2)
    env.reset()
    run(env, 1)
    env.close()
    assert [(len(episode), episode.info.complete) for episode in collector.episodes] == [
        (steps, False) for steps in (3, 2, 1) for _ in range(N)
    ]
    check_episodes(collector.episodes)


def test_the_environment_hears_of_changed_parts_of_its_recorder_only(monkeypatch):
    env, _ = make(ends=None)
    before, heard = env.recorder_manager, []
    monkeypatch.setattr(env, "_recorder_changed", lambda replaced=None: heard.append(replaced))
    recorder = RecorderManager(RecorderCfg(terms=transition_terms()), env)
    assert not heard
    env.set_recorder(recorder)
    assert heard == [before] and env.recorder_manager is recorder
    recorder.add_consumer(print)
    before.add_consumer(print)
    assert heard == [before, None]
    with pytest.raises(AttributeError):
        env.recorder_manager = before


def test_a_recorder_that_is_replaced_is_freed():
    env, _ = make(ends=None)
    old = weakref.ref(env.recorder_manager)
    env.set_recorder(RecorderManager(RecorderCfg(terms=transition_terms()), env))
    gc.collect()
    assert old() is None
    env.physics.rebuild()
