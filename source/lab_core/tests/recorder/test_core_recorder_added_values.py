"""Values that a user adds to running episodes by hand."""

from __future__ import annotations

import pytest
import torch

from lab_core.datasets import Episode
from lab_core.envs import ManagerBasedRLEnv
from lab_core.recorder import EpisodeCollector, RecorderCfg, RecorderError, RecorderManager
from lab_core.recorder.presets import action_state_terms
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 4


def make(steps: int = 10) -> tuple[ManagerBasedRLEnv, list[Episode]]:
    """An environment whose episodes have ``steps`` steps, with a recorder; and the episodes that end."""
    cfg = analytic_cartpole_env_cfg(N, episode_length_s=steps / 60)
    cfg.terminations["cart_out_of_bounds"] = None
    env = cfg.build()
    collector = EpisodeCollector()
    env.set_recorder(RecorderManager(RecorderCfg(terms=action_state_terms()), env, [collector]))
    return env, collector.episodes


def run(env: ManagerBasedRLEnv, steps: int) -> None:
    for _ in range(steps):
        env.step(torch.zeros(N, 1))


class TestAddedValues:
    def test_a_subset_of_envs_and_steps_is_written(self):
        env, episodes = make(steps=4)
        recorder = env.recorder_manager
        run(env, 1)
        written = recorder.add_to_episodes("hints", {"a": torch.arange(N), "b": torch.ones(N, 2)}, [1, 3])
        assert written.tolist() == [False, True, False, True]
        run(env, 3)
        assert [e.steps["hints/a"].tolist() for e in episodes] == [[0] * 4, [1, 0, 0, 0], [0] * 4, [3, 0, 0, 0]]
        assert episodes[1].steps["valid/hints/b"].tolist() == [True, False, False, False]
        assert not episodes[0].steps["valid/hints/b"].any()

    def test_environments_without_a_step_are_left_out(self):
        env, _ = make()
        assert not env.recorder_manager.add_to_episodes("x", torch.zeros(N)).any()

    def test_a_consumer_reaches_the_last_step(self):
        env, episodes = make(steps=3)
        recorder = env.recorder_manager
        recorder.add_consumer(lambda transition: recorder.add_to_episodes("done", transition.done))
        recorder.add_consumer(lambda transition: recorder.set_success_to_episodes(transition.done))
        run(env, 3)
        assert episodes[0].steps["done"].tolist() == [False, False, True]
        assert episodes[0].info.success

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("x", torch.zeros(3), r"key 'x' must be a tensor \(4, ...\), got \(3,\)"),
            ("x", 1.0, "got float"),
            ("actions", torch.zeros(N, 1), "'actions' belongs to a term"),
            ("known", torch.zeros(N, 2), r"'known' must be a tensor \(4,\), got \(4, 2\)"),
            ("known", torch.zeros(N, dtype=torch.complex64), "'known' holds torch.float32, got torch.complex64"),
            ("x", torch.zeros(N, device="meta"), "'x' must be on cpu, got a tensor on meta"),
            # What no file could hold beside the others.
            ("states", torch.zeros(N), "'states/articulation/robot/root_pose' and 'states' exclude each other"),
            ("actions/hint", torch.zeros(N), "'actions' and 'actions/hint' exclude each other"),
            ("known/more", torch.zeros(N), "'known' and 'known/more' exclude each other"),
            ("a//b", torch.zeros(N), "a part that is empty or dots"),
            ("../x", torch.zeros(N), "a part that is empty or dots"),
            ("valid/x", torch.zeros(N), "must not begin with 'valid/'"),
        ],
    )
    def test_wrong_values_are_refused(self, key, value, message):
        env, _ = make()
        env.recorder_manager.add_to_episodes("known", torch.zeros(N))
        with pytest.raises(RecorderError, match=message):
            env.recorder_manager.add_to_episodes(key, value)

    def test_of_wrong_values_none_is_written(self):
        env, _ = make()
        run(env, 1)
        with pytest.raises(RecorderError, match="'hints/b'"):
            env.recorder_manager.add_to_episodes("hints", {"a": torch.ones(N), "b": 1.0})
        assert "hints/a" not in env.recorder_manager.get_episode(0).steps
