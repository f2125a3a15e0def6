"""What becomes of episodes: snapshots, ends, success, limits."""

from __future__ import annotations

import pytest
import torch

from lab_core.datasets import EpisodeInfo
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import ConfigError
from lab_core.managers import EventTermCfg, TermError, TerminationTermCfg
from lab_core.recorder import (
    EpisodeCollector,
    MaskedRows,
    RecorderCfg,
    RecorderError,
    RecorderManager,
    RecorderTermCfg,
    RetentionCfg,
)
from lab_core.recorder.presets import action_state_terms
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 4
ANGLE = "states/articulation/robot/joint_position"


DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.gpu,
    ),
]


def make(
    steps: int = 10, num_envs: int = N, terms=None, sinks=None, device: str = "cpu", **changes
) -> tuple[ManagerBasedRLEnv, list]:
    """An environment whose episodes have ``steps`` steps, with a recorder; and the episodes that end."""
    cfg = analytic_cartpole_env_cfg(num_envs, episode_length_s=steps / 60)
    cfg.terminations["cart_out_of_bounds"] = None
    env = cfg.build(device)
    collector = EpisodeCollector()
    settings = RecorderCfg(terms=action_state_terms() if terms is None else terms, **changes)
    env.set_recorder(RecorderManager(settings, env, [collector] if sinks is None else sinks))
    return env, collector.episodes


def run(env, steps: int) -> None:
    for _ in range(steps):
        env.step(torch.zeros(env.num_envs, 1, device=env.device))


class TestSnapshots:
    def test_nothing_changes_a_snapshot(self):
        env, _ = make()
        run(env, 6)
        episode = env.recorder_manager.get_episode(1)
        assert len(episode) == 6 and not episode.info.complete
        before = {key: value.clone() for key, value in (episode.steps | episode.initial).items()}
        run(env, 10)
        env.reset()
        env.close()
        assert all(torch.equal(value, before[key]) for key, value in (episode.steps | episode.initial).items())

    def test_nothing_done_to_a_snapshot_reaches_the_recorder(self):
        env, _ = make()
        run(env, 6)
        for value in (env.recorder_manager.get_episode(1).steps | env.recorder_manager.get_episode(1).initial).values():
            value.fill_(-1)
        episode = env.recorder_manager.get_episode(1)
        assert all((value != -1).any() for value in (episode.steps | episode.initial).values() if value.numel() > 1)
        live = env.recorder_manager.retention.ring.steps[ANGLE]
        assert episode.steps[ANGLE].untyped_storage().data_ptr() != live.untyped_storage().data_ptr()

    @pytest.mark.parametrize("kept", [1, 4])
    def test_a_consumer_gets_the_steps_before_its_own_also_when_the_ring_is_full(self, kept):
        env, _ = make(retention=RetentionCfg(max_episode_length=kept, on_overflow="drop_oldest"))
        seen = []

        def look(_) -> None:
            seen.append(env.recorder_manager.get_episode(2).steps["actions"][:, 0].tolist())

        env.recorder_manager.add_consumer(look)
        for step in range(8):
            env.step(torch.full((N, 1), float(step)))
        assert seen == [list(map(float, range(max(0, step - kept), step))) for step in range(8)]

    def test_an_episode_that_has_just_begun_is_empty(self):
        env, _ = make(steps=3)
        run(env, 3)
        episode = env.recorder_manager.get_episode(0)
        assert len(episode) == 0 and episode.steps["actions"].shape == (0, 1)
        assert episode.info.episode_index == 1

    def test_an_environment_that_does_not_exist(self):
        env, _ = make()
        with pytest.raises(IndexError, match="There are 4 environments; got 4"):
            env.recorder_manager.get_episode(4)


class TestEnds:
    def test_every_reset_gives_one_episode(self):
        env, episodes = make(steps=7)
        run(env, 7 * 5 + 3)
        counts = env.recorder_manager.counts
        assert (counts.ended, counts.running, counts.interrupted) == (5 * N, N, 0)
        assert (counts.exported, counts.filtered, counts.failed) == (5 * N, 0, 5 * N)
        env.close()
        assert len(episodes) == 6 * N
        for index, episode in enumerate(episodes):
            number, env_id = divmod(index, N)
            assert episode.info == EpisodeInfo(
                env_id=env_id,
                episode_index=number,
                start_step=7 * number,
                length=7 if number < 5 else 3,
                truncated=number < 5,
                complete=number < 5,
                seed=42,
            )

    def test_closing_hands_on_running_episodes_once(self):
        env, episodes = make()
        run(env, 25)
        env.recorder_manager.close()
        env.recorder_manager.close()
        assert [len(episode) for episode in episodes] == [10] * 2 * N + [5] * N
        assert [episode.info.complete for episode in episodes] == [True] * 2 * N + [False] * N
        run(env, 15)  # the environment goes on, unrecorded
        assert len(episodes) == 3 * N
        for call in (
            lambda: env.recorder_manager.get_episode(0),
            lambda: env.recorder_manager.add_to_episodes("x", torch.zeros(N)),
            lambda: env.recorder_manager.set_success_to_episodes(True),
            lambda: env.recorder_manager.counts,
        ):
            with pytest.raises(RecorderError, match="the recorder is closed"):
                call()

    def test_a_reset_from_outside_cuts_off_episodes_that_have_steps(self):
        env, episodes = make()
        env.reset()
        assert not episodes
        run(env, 3)
        env.reset(mask=[1])
        env.reset(mask=[1, 2])
        run(env, 10)
        env.reset_to(env.scene.get_state(), mask=[0])
        infos = {(e.info.env_id, e.info.episode_index): e.info for e in episodes}
        assert {key: (info.length, info.complete, info.start_step) for key, info in infos.items()} == {
            (1, 0): (3, False, 0),
            (2, 0): (3, False, 0),
            (0, 0): (10, True, 0),
            (3, 0): (10, True, 0),
            (1, 1): (10, True, 3),
            (2, 1): (10, True, 3),
            (0, 1): (3, False, 10),
        }

    def test_a_cut_off_episode_keeps_its_own_beginning(self):
        env, episodes = make()
        first = env.scene["robot"].data.joint_pos.clone()
        run(env, 2)
        env.reset(mask=[2])
        second = env.scene["robot"].data.joint_pos.clone()
        run(env, 1)
        env.close()
        key = "initial_state/articulation/robot/joint_position"
        starts = {(e.info.env_id, e.info.episode_index): e.initial[key] for e in episodes}
        assert torch.equal(starts[2, 0], first[2]) and torch.equal(starts[2, 1], second[2])
        assert torch.equal(starts[1, 0], first[1])

    def test_loading_a_state_begins_new_episodes(self):
        env, episodes = make()
        run(env, 2)
        state = env.state_dict()
        assert not [name for name in state["environment"] if "recorder" in name]
        run(env, 3)
        env.load_state_dict(state)
        run(env, 1)
        assert [(len(episode), episode.info.complete) for episode in episodes] == [(5, False)] * N
        start = env.recorder_manager.get_episode(0).initial["initial_state/articulation/robot/joint_position"]
        assert torch.equal(start, state["physics"]["joint_pos"][0])

    def test_an_environment_whose_physics_fails_is_marked(self):
        env, episodes = make()
        run(env, 2)
        env.scene["robot"].data.joint_vel[1] = torch.nan
        run(env, 1)
        assert [(e.info.env_id, e.info.terminated, e.info.non_finite) for e in episodes] == [(1, True, True)]


class TestSuccess:
    def infos(self, decided_by, **terminations) -> list[bool]:
        cfg = analytic_cartpole_env_cfg(N, episode_length_s=5 / 60)
        cfg.terminations |= terminations
        env = cfg.build()
        collector = EpisodeCollector()
        cfg = RecorderCfg(terms=action_state_terms(), success=decided_by)
        env.set_recorder(RecorderManager(cfg, env, [collector]))
        run(env, 5)
        return [episode.info.success for episode in collector.episodes]

    def test_without_a_term_called_success_nothing_succeeds(self):
        assert self.infos(None) == [False] * N

    def test_the_term_called_success_decides(self):
        assert self.infos(None, success=TerminationTermCfg(func=odd_environments_at_the_end)) == [False, True] * 2

    def test_another_term_or_a_function_may_decide(self):
        odd = TerminationTermCfg(func=odd_environments_at_the_end)
        assert self.infos("arrived", arrived=odd) == [False, True] * 2
        assert self.infos("time_out") == [True] * N
        assert self.infos(odd_environments_at_the_end) == [False, True] * 2

    def test_a_term_that_does_not_exist(self):
        with pytest.raises(ConfigError, match="recorder.success: unknown termination term 'arived'. Did you mean 'arr"):
            self.infos("arived", arrived=TerminationTermCfg(func=odd_environments_at_the_end))

    def test_what_is_said_from_outside_holds_for_the_running_episode_only(self):
        env, episodes = make(steps=5, success="time_out")
        run(env, 2)
        env.recorder_manager.set_success_to_episodes(False, [0, 1])
        env.recorder_manager.set_success_to_episodes(torch.tensor([True, False, True, False]), [0])
        run(env, 8)
        assert [episode.info.success for episode in episodes] == [True, False, True, True] + [True] * N
        run(env, 1)
        env.recorder_manager.set_success_to_episodes(True, [3])
        env.close()
        assert [episode.info.success for episode in episodes[2 * N :]] == [False, False, False, True]
        assert env.recorder_manager.retention.counts().successful == 2 * N

    def test_a_wrong_shape(self):
        env, _ = make()
        with pytest.raises(RecorderError, match=r"success must be a bool or a bool tensor \(4,\), got torch.float32"):
            env.recorder_manager.set_success_to_episodes(torch.zeros(4))


def odd_environments_at_the_end(env) -> torch.Tensor:
    return (torch.arange(env.num_envs) % 2 == 1) & (env.episode_length_buf == env.max_episode_length)


class TestLimits:
    def test_an_episode_longer_than_the_ring_is_an_error(self):
        env, episodes = make(steps=10, retention=RetentionCfg(max_episode_length=6))
        run(env, 6)
        with pytest.raises(
            RecorderError, match=r"environments \[0, 1, 2, 3\] are longer than the 6 steps .* 'drop_oldest'"
        ):
            run(env, 1)
        assert env.recorder_manager.get_episode(0).info.dropped_steps == 1

    def test_dropped_steps_are_told(self):
        env, episodes = make(steps=10, retention=RetentionCfg(max_episode_length=6, on_overflow="drop_oldest"))
        actions = []
        for step in range(10):
            actions.append(float(step))
            env.step(torch.full((N, 1), actions[-1]))
        assert [(len(e), e.info.dropped_steps, e.info.start_step) for e in episodes] == [(6, 4, 4)] * N
        assert episodes[0].steps["actions"].flatten().tolist() == actions[4:]

    def test_too_large_a_ring_is_refused_with_its_size(self):
        with pytest.raises(
            RecorderError, match=r"would keep 4\.97 KiB \(10 steps of 4 environments\), more than .*limit_gib"
        ):
            make(retention=RetentionCfg(memory_limit_gib=1e-6))

    def test_the_size_is_printed(self, capsys):
        make()
        assert "Recorder: 11 keys, up to 10 steps of 4 environments, 4.97 KiB on cpu" in capsys.readouterr().err

    def test_streaming_needs_no_ring_and_says_so(self, capsys):
        steps = []
        env, _ = make(retention=None, sinks=())
        env.recorder_manager.add_consumer(
            lambda transition: steps.append((transition.step, int(transition.done.sum())))
        )
        run(env, 10)
        assert steps == [(step, 0) for step in range(9)] + [(9, N)]
        assert capsys.readouterr().err == ""
        with pytest.raises(RecorderError, match="get_episode: the recorder keeps no episodes; set recorder.retention"):
            env.recorder_manager.get_episode(0)
        with pytest.raises(ConfigError, match="need recorder.retention"):
            make(retention=None)

    def test_a_common_end_of_all_environments_is_handed_on_in_parts(self, monkeypatch):
        sizes = []

        class Sink(EpisodeCollector):
            def write(self, batch):
                sizes.append(len(batch))
                super().write(batch)

        monkeypatch.setattr("lab_core.recorder.retention.BATCH_BYTES", 4000)
        sink = Sink()
        env, _ = make(num_envs=32, sinks=[sink])
        run(env, 10)
        assert len(sizes) > 3 and sum(sizes) == 32
        assert [episode.info.env_id for episode in sink.episodes] == list(range(32))

    def test_a_sink_takes_only_what_it_accepts(self):
        class Odd(EpisodeCollector):
            def accepts(self, info):
                return info.env_id % 2 == 1

        sink = Odd()
        env, _ = make(sinks=[sink])
        run(env, 20)
        assert [episode.info.env_id for episode in sink.episodes] == [1, 3] * 2
        counts = env.recorder_manager.counts
        assert (counts.ended, counts.exported, counts.filtered) == (8, 4, 4)

    @pytest.mark.parametrize("device", DEVICES)
    def test_memory_after_500_episodes_is_that_after_50(self, device):
        class Count(EpisodeCollector):
            def write(self, batch):
                pass

        env, _ = make(steps=5, num_envs=10, sinks=[Count()], device=device)
        run(env, 25)
        assert env.recorder_manager.counts.ended == 50
        before = used_bytes(device)
        run(env, 225)
        assert env.recorder_manager.counts.ended == 500
        assert all(after < 1.01 * first for after, first in zip(used_bytes(device), before, strict=True))


def used_bytes(device: str) -> list[int]:
    """Memory of the process and, on a GPU, what torch holds there."""
    if device == "cpu":
        return [resident_bytes()]
    return [resident_bytes(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1])


class TestConfiguration:
    def build(self, **terms) -> None:
        cfg = analytic_cartpole_env_cfg(N)
        cfg.recorder = RecorderCfg(terms=terms)
        cfg.build()

    def test_the_configuration_of_an_environment_starts_its_recorder(self):
        cfg = analytic_cartpole_env_cfg(N)
        cfg.recorder = RecorderCfg(terms=action_state_terms())
        env = cfg.build()
        run(env, 2)
        episode = env.recorder_manager.get_episode(0)
        assert len(episode) == 2 and episode.info.start_step == 0

    def test_the_table_tells_key_shape_type_term_and_phase(self):
        env, _ = make()
        table = str(env.recorder_manager)
        assert "Recorder terms (11)" in table
        assert (
            "states/articulation/robot/root_pose              (7,)   float32  states             post_physics" in table
        )

    @pytest.mark.parametrize(
        ("cfg", "message"),
        [
            (RecorderTermCfg(func=lambda env: 3.0, phase="post_step"), r"'x' must be a tensor \(4, ...\), got float"),
            (RecorderTermCfg(func=lambda env, a: a, phase="post_step"), r"params lack \['a'\]"),
        ],
    )
    def test_wrong_terms_are_named(self, cfg, message):
        with pytest.raises(TermError, match=f"recorder term 'x'.*{message}"):
            self.build(x=cfg)

    def test_a_term_of_another_kind_is_named(self):
        with pytest.raises(ConfigError, match="recorder.terms.x: got a EventTermCfg, expected RecorderTermCfg"):
            self.build(x=EventTermCfg(func=lambda env: env.reward_buf, mode="reset"))

    def test_an_unknown_phase_is_named(self):
        with pytest.raises(ConfigError, match=r"recorder.terms.x.phase: got 'later' .*post_step"):
            self.build(x=RecorderTermCfg(func=lambda env: env.reward_buf, phase="later"))

    def test_a_value_that_changes_its_form_is_named(self):
        calls = []

        def growing(env):
            calls.append(0)
            return torch.zeros(N, len(calls))

        env, _ = make(terms={"x": RecorderTermCfg(func=growing, phase="post_step")})
        with pytest.raises(TermError, match=r"recorder term 'x': recorded key 'x' must be a tensor \(4, 1\), got"):
            run(env, 1)

    def test_two_terms_with_one_key(self):
        term = RecorderTermCfg(func=lambda env: env.reward_buf, phase="post_step", key="r")
        with pytest.raises(TermError, match="recorder term 'b': recorded keys 'r' and 'r' exclude each other"):
            self.build(a=term, b=term)

    def test_values_of_some_environments_come_with_their_mask(self):
        def sometimes(env):
            return MaskedRows(env.reward_buf, env.episode_length_buf % 2 == 0)

        env, episodes = make(steps=4, terms={"x": RecorderTermCfg(func=sometimes, phase="post_step")})
        run(env, 4)
        assert episodes[0].steps["valid/x"].tolist() == [False, True, False, True]
        assert episodes[0].steps["x"][2] == episodes[0].steps["x"][1]
