"""Repeating recorded episodes, and recording a number of them with a policy."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
import torch

from lab_core.datasets import DatasetCfg, DatasetError, EpisodeInfo, RecordedDataset
from lab_core.managers import EventTermCfg, TerminationTermCfg, declare
from lab_core.recorder import RecorderCfg, RecorderTermCfg, RetentionCfg
from lab_core.recorder import terms as recorder_terms
from lab_core.recorder.presets import action_state_terms, task_terms, transition_terms
from lab_core.rollouts import build_replay_env, replay_episodes
from lab_core.rollouts.collect import EpisodeQuota, collect_episodes
from lab_core.rollouts.policies import make_policy
from lab_core.scene import Articulation
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def sometimes(env) -> torch.Tensor:
    generator = torch.Generator().manual_seed(env.step_count)
    return torch.rand(env.num_envs, generator=generator) < 0.1


def push(env, mask) -> None:
    """Changes the velocities of some environments between two steps."""
    data = env.scene["robot"].data
    kick = torch.rand(data.joint_vel.shape, generator=env.generator) - 0.5
    env.scene["robot"].write_joint_state(data.joint_pos.clone(), data.joint_vel + kick, mask)


def stiffer(env, mask) -> None:
    """Gives every episode its own damping."""
    damping = env.scene["robot"].data.joint_damping
    damping[mask, 0] = 5.0 + 10.0 * torch.rand(int(mask.sum()), generator=env.generator)


def recording_cfg(folder: Path, terms=None, **dataset):
    cfg = analytic_cartpole_env_cfg(3, episode_length_s=0.5)
    cfg.terminations["random"] = TerminationTermCfg(func=sometimes)
    cfg.events["push"] = EventTermCfg(func=push, mode="interval", interval_range_s=(0.1, 0.2))
    cfg.events["damping"] = EventTermCfg(func=stiffer, mode="reset")
    terms = transition_terms() if terms is None else terms
    cfg.recorder = RecorderCfg(terms=terms, dataset=DatasetCfg(folder=folder, **dataset))
    return cfg


def record(cfg, steps: int = 40) -> RecordedDataset:
    env = cfg.build()
    policy = make_policy("random", env, noise=0.5)
    for _ in range(steps):
        env.step(policy(env.get_observations()))
    env.close()
    return RecordedDataset(cfg.recorder.dataset.folder)


def replay_env(num_envs: int):
    """As :func:`build_replay_env`, whose configuration cannot name the functions of a test module."""
    cfg = recording_cfg(Path())
    cfg.recorder, cfg.scene.num_envs, cfg.seed = None, num_envs, 7
    return cfg.build()


class TestReplay:
    def test_initial_state_and_actions_give_the_recorded_states(self, tmp_path):
        """Exactly, in other environments, several at a time, in spite of pushes, random properties and another seed."""
        dataset = record(recording_cfg(tmp_path))
        pushed = [
            (e.steps["pre_states/articulation/robot/joint_velocity"][1:]
             != e.steps["states/articulation/robot/joint_velocity"][:-1]).any()
            for e in dataset
        ]  # fmt: skip
        assert sum(map(bool, pushed)) > 3
        steps = []
        report = replay_episodes(dataset, replay_env(4), range(len(dataset)), tolerance=0.0, after_step=steps.append)
        assert report.ok and report.episodes == len(dataset) > 9
        assert report.steps == steps[-1] == sum(info.length for info in dataset.infos)
        assert set(report.largest_errors.values()) == {0.0} and len(report.largest_errors) == 4

    def test_entities_of_any_kind_are_compared_and_pushed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Articulation, "kind", "rigid_object")
        dataset = record(recording_cfg(tmp_path))
        report = replay_episodes(dataset, replay_env(4), range(len(dataset)), tolerance=0.0)
        assert report.ok and "states/rigid_object/robot/joint_velocity" in report.largest_errors

    def test_an_entity_that_the_task_lacks_is_named(self, tmp_path):
        terms = transition_terms()
        terms["initial_state/rigid_object/crate"] = RecorderTermCfg(func=recorder_terms.rewards, phase="post_reset")
        dataset = record(recording_cfg(tmp_path, terms))
        with pytest.raises(DatasetError, match="demo_0 holds 'initial_state/rigid_object/crate', of which the task"):
            replay_episodes(dataset, replay_env(2), [0])

    def test_a_difference_is_named_with_step_key_and_environment(self, tmp_path):
        dataset = record(recording_cfg(tmp_path))
        (index,) = [i for i, info in enumerate(dataset.infos) if (info.env_id, info.episode_index) == (1, 0)]
        dataset.close()
        with h5py.File(dataset.files[0][0], "r+") as file:
            velocity = file[f"data/demo_{index}/states/articulation/robot/joint_velocity"]
            velocity[4, 1] += 0.01
        report = replay_episodes(RecordedDataset(tmp_path), replay_env(4), range(len(dataset)), tolerance=1e-4)
        assert not report.ok and len(report.mismatches) == 1
        mismatch = report.mismatches[0]
        key = "states/articulation/robot/joint_velocity"
        assert (mismatch.step, mismatch.key, mismatch.env_id, mismatch.component) == (4, key, 1, (1,))
        assert mismatch.recorded - mismatch.repeated == pytest.approx(0.01, abs=1e-4)
        assert str(mismatch).startswith(f"step 4, {key}[1], environment 1 (")
        assert replay_episodes(RecordedDataset(tmp_path), replay_env(4), range(len(dataset)), tolerance=0.1).ok

    def test_another_law_of_motion_is_noticed(self, tmp_path):
        dataset = record(recording_cfg(tmp_path))
        env = replay_env(4)
        env.cfg.physics.gravity = env.physics.cfg.gravity = (0.0, 0.0, -9.0)
        report = replay_episodes(dataset, env, range(len(dataset)))
        assert len(report.mismatches) == len(dataset) and report.mismatches[0].step <= 1

    def test_the_configuration_in_the_file_builds_the_environment(self, tmp_path):
        cfg = analytic_cartpole_env_cfg(2, episode_length_s=0.2)
        cfg.recorder = RecorderCfg(terms=transition_terms(), dataset=DatasetCfg(folder=tmp_path))
        dataset = record(cfg, 24)
        env = build_replay_env(dataset, 3)
        assert env.num_envs == 3 and env.recorder_manager.__class__.__name__ == "RecorderHooks"
        assert replay_episodes(dataset, env, range(len(dataset)), tolerance=0.0).ok

    @pytest.mark.parametrize("missing", ["initial_state", "actions", "states"])
    def test_what_is_missing_is_named(self, tmp_path, missing):
        terms = action_state_terms()
        terms[missing] = None
        dataset = record(recording_cfg(tmp_path, terms))
        with pytest.raises(DatasetError, match=f"demo_0 holds no '{missing}"):
            replay_episodes(dataset, replay_env(2), [0])

    def test_an_episode_without_its_beginning_is_refused(self, tmp_path):
        cfg = recording_cfg(tmp_path)
        cfg.recorder.retention = RetentionCfg(max_episode_length=3, on_overflow="drop_oldest")
        dataset = record(cfg)
        longest = max(range(len(dataset)), key=lambda index: dataset.infos[index].dropped_steps)
        with pytest.raises(DatasetError, match="its first [0-9]+ steps were not kept"):
            replay_episodes(dataset, replay_env(2), [longest])

    def test_actuators_with_a_memory_need_it_recorded(self, tmp_path, monkeypatch):
        dataset = record(recording_cfg(tmp_path))
        env = replay_env(2)
        memory = {"robot.lag": torch.zeros(2, 3, dtype=torch.int32)}
        monkeypatch.setattr(env.physics, "actuator_memory", lambda: memory)
        with pytest.raises(DatasetError, match=r"demo_0: the actuators of this task remember the past \(robot.lag\)"):
            replay_episodes(dataset, env, [0])

    def test_another_robot_is_refused(self, tmp_path):
        dataset = record(recording_cfg(tmp_path))
        dataset.attributes["names"] = '{"robot": {"joint_names": ["a", "b"], "body_names": []}}'
        with pytest.raises(DatasetError, match=r"the joints of 'robot' are \['a', 'b'\], those of the task \['slider"):
            replay_episodes(dataset, replay_env(2), [0])

    def test_a_file_without_configuration_needs_a_task(self, tmp_path):
        dataset = record(recording_cfg(tmp_path))
        dataset.config = ""
        with pytest.raises(DatasetError, match="holds no configuration; name the task"):
            build_replay_env(dataset, 1)


class TestActuatorMemory:
    def test_it_is_recorded_when_an_episode_begins_and_found_again_after_a_rebuild(self, monkeypatch):
        env = analytic_cartpole_env_cfg(2).build()
        memories = [{"robot.lag": torch.tensor([[1], [2]])}, {"robot.lag": torch.tensor([[3], [4]])}]
        monkeypatch.setattr(env.physics, "actuator_memory", lambda: memories.pop(0))
        term = recorder_terms.InitialConditions(None, env)
        assert term(env)["actuators"]["robot.lag"].tolist() == [[1], [2]]
        env.physics.rebuild()
        assert term(env)["actuators"]["robot.lag"].tolist() == [[3], [4]]
        assert term.state_dict() == {}


class TestQuota:
    def take(self, quota: EpisodeQuota, ends: list[int]) -> list[int]:
        """Environments whose episodes are taken, when episodes end in the environments ``ends``, one after the
        other."""
        counts, taken = dict.fromkeys(ends, 0), []
        for env_id in ends:
            if quota.takes(EpisodeInfo(env_id=env_id, episode_index=counts[env_id], start_step=0, length=1)):
                taken.append(env_id)
            counts[env_id] += 1
        return taken

    def test_every_environment_gives_as_many_episodes(self):
        quota = EpisodeQuota(5, 3)
        assert self.take(quota, [0, 0, 0, 0, 1, 1, 2]) == [0, 0, 1, 1, 2] and quota.reached

    def test_or_those_that_end_first(self):
        quota = EpisodeQuota(3, 3, first_to_end=True)
        assert self.take(quota, [0, 0, 0, 0, 1]) == [0, 0, 0] and quota.reached

    def test_episodes_that_were_cut_off_do_not_count(self):
        quota = EpisodeQuota(2, 2)
        assert not quota.takes(EpisodeInfo(env_id=0, episode_index=0, start_step=0, length=1, complete=False))
        assert quota.taken == 0 and not quota.reached


def test_collecting_reports_failed_physics():
    env = analytic_cartpole_env_cfg(2, episode_length_s=0.1).build()
    env.scene["robot"].data.joint_vel[1] = torch.nan
    warnings, steps = [], []
    collect_episodes(env, make_policy("zero", env), lambda: len(steps) == 9, lambda: steps.append(0), warnings.append)
    assert warnings == ["The physics of 1 environments failed; their episodes are marked non_finite."]


@declare(writes=("body_wrench_w",))
def own_pull(env, mask) -> None:
    """Stands for an event of somebody else's."""


def test_a_task_is_recorded_with_all_its_observations_and_wrenches():
    from lab_core import mdp

    cfg = analytic_cartpole_env_cfg(2)
    cfg.observations["critic"] = cfg.observations["policy"]
    assert {"obs/policy", "obs/critic"} <= task_terms(cfg).keys() and "external_wrenches" not in task_terms(cfg)
    cfg.events["pull"] = EventTermCfg(
        func=mdp.apply_external_force_torque,
        mode="reset",
        params={"force_range": (-1.0, 1.0), "torque_range": (0.0, 0.0)},
    )
    cfg.recorder = RecorderCfg(terms=task_terms(cfg))
    cfg.events["pull"].func = own_pull  # what matters is what a function says of itself
    assert task_terms(cfg).keys() == cfg.recorder.terms.keys()
    cfg.events["pull"].func = mdp.apply_external_force_torque
    env = cfg.build()
    env.step(torch.zeros(2, 1))
    episode = env.recorder_manager.get_episode(0)
    assert torch.equal(episode.steps["external_wrenches/robot"][0], env.scene["robot"].data.body_wrench_w[0])
    assert episode.steps["external_wrenches/robot"].abs().max() > 0 and episode.steps["obs/critic"].shape == (1, 4)
