"""What the recorder takes from each step, when, and that the run does not notice it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch

from lab_core.datasets import Episode
from lab_core.envs import DirectRLEnv, DirectRLEnvCfg, ManagerBasedRLEnv
from lab_core.managers import EventTermCfg, ObservationTermCfg, TerminationTermCfg
from lab_core.recorder import EpisodeCollector, RecorderCfg, RecorderManager, RecorderTermCfg, terms
from lab_core.recorder.monitor import EndMonitor
from lab_core.recorder.presets import transition_terms
from lab_core.signals import UniformNoiseCfg
from lab_core.testing.analytic import AnalyticCartpoleBackend
from lab_core.testing.cartpole import analytic_cartpole_env_cfg


def random_end(env) -> torch.Tensor:
    """Ends about one episode in ten steps, in a fixed pattern of its own."""
    generator = torch.Generator().manual_seed(env.step_count)
    return (torch.rand(env.num_envs, generator=generator) < 0.1).to(env.device)


DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.gpu,
    ),
]


def make(
    num_envs: int = 8, record: bool = True, device: str = "cpu", **changes
) -> tuple[ManagerBasedRLEnv, EpisodeCollector]:
    """An environment with noisy observations and episodes of random length, and its recorded episodes."""
    cfg = analytic_cartpole_env_cfg(num_envs, episode_length_s=0.5)
    cfg.terminations["random"] = TerminationTermCfg(func=random_end)
    cfg.observations["policy"].enable_corruption = True
    for term in cfg.observations["policy"].terms.values():
        assert isinstance(term, ObservationTermCfg)
        term.noise = UniformNoiseCfg(n_min=-0.1, n_max=0.1)
        term.history_length = 2
    for name, value in changes.items():
        setattr(cfg, name, value)
    env = cfg.build(device)
    collector = EpisodeCollector()
    if record:
        env.set_recorder(RecorderManager(RecorderCfg(terms=transition_terms()), env, [collector]))
    return env, collector


def run(env: ManagerBasedRLEnv, steps: int, seed: int = 0) -> list[torch.Tensor]:
    """Steps with random actions; returns everything that a step returns and the state after it."""
    generator = torch.Generator().manual_seed(seed)
    outputs = []
    for _ in range(steps):
        observations, *rest, extras = env.step(4.0 * torch.randn(env.num_envs, 1, generator=generator).to(env.device))
        data = env.scene["robot"].data
        outputs += [observations["policy"], *rest, extras["final_obs"]["policy"], *extras["log"].values()]
        outputs += [data.joint_pos.clone(), data.joint_vel.clone(), env.generator.get_state()]
    return outputs


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_stored_values_are_the_live_ones_byte_for_byte(device):
    env, collector = make(device=device)
    live = defaultdict(list)
    env.recorder_manager.add_consumer(
        lambda transition: [live[key].append(value.clone()) for key, value in transition.values.items()]
    )
    run(env, 120)
    env.close()  # on a GPU the host may be some steps behind
    assert len(collector.episodes) > 50
    for episode in collector.episodes:
        info = episode.info
        rows = slice(info.start_step, info.start_step + info.length)
        for key, value in episode.steps.items():
            assert torch.equal(value, torch.stack(live[key][rows])[:, info.env_id]), key
        for key, value in episode.initial.items():
            assert torch.equal(value, live[key][info.start_step][info.env_id]), key


@pytest.mark.parametrize("device", DEVICES)
def test_recording_changes_nothing(device):
    """States, observations with noise and history, rewards, logs and the random generator, over 500 steps."""
    recorded, collector = make(device=device)
    plain, _ = make(record=False, device=device)
    assert same(run(recorded, 500), run(plain, 500))
    assert len(collector.episodes) > 300


class LateEvent:
    """Copies that arrive up to four steps later, as on a GPU."""

    pushed = 0

    def __init__(self, device: torch.device) -> None:
        self._step = 0

    def record(self) -> None:
        self._step = LateEvent.pushed
        LateEvent.pushed += 1

    def arrived(self) -> bool:
        return LateEvent.pushed - self._step > (LateEvent.pushed * 7 + 3) % 5

    def wait(self) -> None:
        """The device catches up."""


def test_a_host_that_is_behind_the_device_exports_the_same(monkeypatch):
    prompt, expected = make(num_envs=16, terminations=fast_ends())
    run(prompt, 80)
    prompt.close()
    monkeypatch.setattr("lab_core.recorder.monitor.CopyEvent", LateEvent)
    monkeypatch.setattr("lab_core.recorder.retention.EndMonitor", lambda *args: EndMonitor(*args[:2], lag=4))
    late, collector = make(num_envs=16, terminations=fast_ends())
    assert late.recorder_manager.retention.ring.num_slots == 30 + 4 + 1
    run(late, 80)
    late.close()
    assert len(collector.episodes) == len(expected.episodes) > 600
    assert min(len(episode) for episode in collector.episodes) == 1
    for a, b in zip(collector.episodes, expected.episodes, strict=True):
        assert a.info == b.info
        assert all(torch.equal(a.steps[key], b.steps[key]) for key in b.steps)
        assert all(torch.equal(a.initial[key], b.initial[key]) for key in b.initial)


def fast_ends() -> dict:
    """Every second episode, about, ends with its first step."""

    def half(env) -> torch.Tensor:
        generator = torch.Generator().manual_seed(env.step_count)
        return torch.rand(env.num_envs, generator=generator) < 0.5

    return {"half": TerminationTermCfg(func=half)}


@contextmanager
def no_waiting_for(device: torch.device) -> Iterator[None]:
    """Inside, torch raises where the host would wait for a GPU."""
    if device.type == "cpu":
        yield
        return
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(mode)


@pytest.mark.parametrize("device", DEVICES)
def test_no_step_waits_for_the_gpu(device):
    """Neither recording a step nor the end of episodes; the host may only fall behind."""
    env = analytic_cartpole_env_cfg(64, episode_length_s=1.0).build(device)
    collector = EpisodeCollector()
    recorder = RecorderManager(RecorderCfg(terms=transition_terms()), env, [collector])
    env.set_recorder(recorder)
    env.step(torch.zeros(64, 1, device=env.device))
    env.reset_terminated[::2] = env.reset_buf[::2] = True  # the other environments go on: 31 of at most 60 steps
    with no_waiting_for(env.device):
        for _ in range(30):
            recorder.record_pre_step()
            recorder.record_pre_physics()
            recorder.record_post_physics()
            recorder.record_post_step()
            recorder.record_post_reset(env.reset_buf)
            recorder.finish_step()
    assert recorder.counts.ended == len(collector.episodes) == 30 * 32
    assert [len(episode) for episode in collector.episodes] == [2] * 32 + [1] * 29 * 32
    assert len(recorder.get_episode(1)) == 31


def test_the_policys_own_observations_are_recorded():
    env, collector = make(num_envs=2)
    given = [env.get_observations()["policy"]]
    for _ in range(60):
        given.append(env.step(torch.zeros(2, 1))[0]["policy"])
    episode = collector.episodes[-1]
    start, env_id = episode.info.start_step, episode.info.env_id
    assert torch.equal(episode.steps["obs"], torch.stack(given)[start : start + len(episode), env_id])


class Reference:
    """A recorder per environment, in plain Python, from what an environment shows to everybody."""

    def __init__(self, env: ManagerBasedRLEnv, monkeypatch: pytest.MonkeyPatch) -> None:
        self.env = env
        self.episodes: list[dict[str, torch.Tensor]] = []
        self.running = [self._begin(env_id) for env_id in range(env.num_envs)]
        original = env.termination_manager.compute

        def compute():
            self.end_state = env.scene.get_state()  # the physics has run, nothing has been reset
            return original()

        monkeypatch.setattr(env.termination_manager, "compute", compute)

    def _begin(self, env_id: int) -> dict[str, list[torch.Tensor]]:
        return defaultdict(list, {"initial_state": [self._state(self.env.scene.get_state(), env_id)]})

    @staticmethod
    def _state(state, env_id: int) -> torch.Tensor:
        return torch.cat([value[env_id] for value in state["articulation"]["robot"].values()])

    def step(self, actions: torch.Tensor) -> None:
        before, observations = self.env.scene.get_state(), self.env.get_observations()["policy"]
        _, reward, terminated, truncated, _ = self.env.step(actions)
        for env_id, episode in enumerate(self.running):
            episode["pre_states"].append(self._state(before, env_id))
            episode["obs"].append(observations[env_id])
            episode["actions"].append(actions[env_id])
            episode["states"].append(self._state(self.end_state, env_id))
            episode["rewards"].append(reward[env_id])
            episode["terminated"].append(terminated[env_id])
            episode["truncated"].append(truncated[env_id])
            if terminated[env_id] or truncated[env_id]:
                self.episodes.append({key: torch.stack(rows) for key, rows in episode.items()})
                self.running[env_id] = self._begin(env_id)


def as_reference(episode: Episode) -> dict[str, torch.Tensor]:
    values = episode.nested()
    result = {key: values[key] for key in ("obs", "actions", "rewards", "terminated", "truncated")}
    for key in ("initial_state", "pre_states", "states"):
        result[key] = torch.cat(list(values[key]["articulation"]["robot"].values()), dim=-1)
    return result


def test_64_environments_equal_a_python_recorder_per_environment(monkeypatch):
    env, collector = make(num_envs=64)
    reference = Reference(env, monkeypatch)
    generator = torch.Generator().manual_seed(1)
    for _ in range(80):
        reference.step(4.0 * torch.randn(64, 1, generator=generator))
    assert len(collector.episodes) == len(reference.episodes) > 300
    assert len({len(episode) for episode in collector.episodes}) > 20
    for episode, expected in zip(collector.episodes, reference.episodes, strict=True):
        found = as_reference(episode)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in expected)


def test_a_partial_reset_begins_an_episode_only_there():
    env, _ = make(num_envs=4)
    key = "initial_state/articulation/robot/joint_position"
    before = env.recorder_manager.transition.values[key].clone()
    env.step(torch.zeros(4, 1))
    env.reset(mask=[3])
    after = env.recorder_manager.transition.values[key]
    assert torch.equal(after[:3], before[:3]) and not torch.equal(after[3], before[3])
    assert torch.equal(after[3], env.scene["robot"].data.joint_pos[3])


def last_state_is_the_terminal_one() -> bool:
    """Whether the last recorded state of every episode is what its last action led to: the new position is the old one
    plus the time step times the new velocity."""
    env, collector = make(num_envs=16, decimation=1)
    run(env, 60)
    assert len(collector.episodes) > 20
    before, after = (
        [episode.nested()[key]["articulation"]["robot"] for episode in collector.episodes]
        for key in ("pre_states", "states")
    )
    return all(
        torch.allclose(
            new["joint_position"][-1],
            old["joint_position"][-1] + env.step_dt * new["joint_velocity"][-1],
            atol=1e-6,
        )
        for old, new in zip(before, after, strict=True)
    )


def test_the_last_state_is_the_one_before_the_reset():
    assert last_state_is_the_terminal_one()


def kick(env, mask: torch.Tensor) -> None:
    data = env.scene["robot"].data
    env.scene["robot"].write_joint_state(data.joint_pos + 0.25, data.joint_vel, mask)


def test_states_are_those_before_interval_events():
    """Also the last one of an episode; the next step begins with what the event made of it."""
    cfg = analytic_cartpole_env_cfg(num_envs=4, episode_length_s=0.1)
    cfg.decimation = 1
    cfg.events["kick"] = EventTermCfg(func=kick, mode="interval", interval_range_s=(0.001, 0.001))
    env, collector = cfg.build(), EpisodeCollector()
    env.set_recorder(RecorderManager(RecorderCfg(terms=transition_terms()), env, [collector]))
    run(env, 12)
    assert len(collector.episodes) == 4
    for episode in collector.episodes:
        before, after = (episode.nested()[key]["articulation"]["robot"] for key in ("pre_states", "states"))
        moved = before["joint_position"] + env.step_dt * after["joint_velocity"]
        torch.testing.assert_close(after["joint_position"], moved)
        torch.testing.assert_close(before["joint_position"][1:], after["joint_position"][:-1] + 0.25)


def test_mutation_a_capture_behind_the_reset_is_noticed(monkeypatch):
    post_physics, post_reset = RecorderManager.record_post_physics, RecorderManager.record_post_reset
    monkeypatch.setattr(RecorderManager, "record_post_physics", lambda self: None)

    def late(self, mask):
        post_physics(self)
        post_reset(self, mask)

    monkeypatch.setattr(RecorderManager, "record_post_reset", late)
    assert not last_state_is_the_terminal_one()


def recorded_effort_entered_the_solver() -> bool:
    """Compares with the actuators' law in the state before the step: damped, and clipped to the limit."""
    env, collector = make(decimation=1)
    run(env, 60)
    pairs = []
    for episode in collector.episodes:
        velocity = episode.steps["pre_states/articulation/robot/joint_velocity"][:, 0]
        expected = (100.0 * episode.steps["actions"][:, 0] - 10.0 * velocity).clamp(-400.0, 400.0)
        pairs.append((episode.steps["applied_effort/robot"][:, 0], expected))
    recorded, expected = (torch.cat(side) for side in zip(*pairs, strict=True))
    assert len(recorded) > 300 and (recorded.abs() == 400.0).any()
    return torch.allclose(recorded, expected, atol=1e-3)


def test_the_recorded_effort_entered_the_solver():
    assert recorded_effort_entered_the_solver()


def test_mutation_an_effort_copied_behind_the_solver_is_noticed(monkeypatch):
    substep = AnalyticCartpoleBackend._substep

    def late(self):
        substep(self)
        data = self._data
        effort = data.joint_damping * (data.joint_vel_target - data.joint_vel) + data.joint_effort_target
        data.applied_effort.copy_(effort.clamp(-data.joint_effort_limits, data.joint_effort_limits))

    monkeypatch.setattr(AnalyticCartpoleBackend, "_substep", late)
    assert not recorded_effort_entered_the_solver()


def test_every_order_of_inference_contexts_works():
    for create, fill, read in ((a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)):
        with torch.inference_mode(False):
            env, collector = make(num_envs=2, record=False)
        with torch.inference_mode(bool(create)):
            env.set_recorder(RecorderManager(RecorderCfg(terms=transition_terms()), env, [collector]))
        with torch.inference_mode(bool(fill)):
            run(env, 20)
            env.recorder_manager.add_to_episodes("note", torch.ones(2))
        run(env, 20, seed=1)
        with torch.inference_mode(bool(read)):
            episodes = [env.recorder_manager.get_episode(0), *collector.episodes]
        assert len(episodes) > 3
        assert not any(value.is_inference() for episode in episodes for value in episode.steps.values())
        weight = torch.ones(1, requires_grad=True)
        (episodes[0].steps["actions"] * weight).sum().backward()


@pytest.mark.parametrize("decimation", [1, 4])
def test_a_step_is_one_row_whatever_the_decimation(decimation):
    env, collector = make(decimation=decimation)
    run(env, 50)
    running = [len(env.recorder_manager.get_episode(env_id)) for env_id in range(8)]
    assert sum(len(episode) for episode in collector.episodes) + sum(running) == 8 * 50


def test_next_observations_are_those_before_the_reset():
    def record(env) -> EpisodeCollector:
        cfg = RecorderCfg(terms={"next_obs": RecorderTermCfg(func=terms.next_observations, phase="post_step")})
        collector = EpisodeCollector()
        env.set_recorder(RecorderManager(cfg, env, [collector]))
        return collector

    env, _ = make(record=False)
    collector = record(env)
    finals = torch.stack([env.step(torch.ones(8, 1))[4]["final_obs"]["policy"] for _ in range(40)])
    for episode in collector.episodes:
        info = episode.info
        rows = finals[info.start_step : info.start_step + info.length, info.env_id]
        assert torch.equal(episode.steps["next_obs"], rows)
    env, _ = make(record=False, compute_final_obs=False)
    with pytest.raises(ValueError, match="recorder term 'next_obs': next_observations needs .*compute_final_obs"):
        record(env)


def test_a_late_reader_of_poisoned_views_sees_nan():
    env, _ = make(record=False)
    manager = RecorderManager(RecorderCfg(terms=transition_terms(), poison_views=True), env)
    env.set_recorder(manager)
    kept: dict[str, torch.Tensor] = {}
    manager.add_consumer(lambda transition: kept.update(transition.values))
    env.step(torch.zeros(8, 1))
    assert kept["states/articulation/robot/joint_position"].isfinite().all()
    manager.record_pre_step()
    assert kept["states/articulation/robot/joint_position"].isnan().all()
    assert kept["actions"].isfinite().all()
    assert kept["initial_state/articulation/robot/joint_position"].isfinite().all()


@dataclass(kw_only=True)
class PushEnvCfg(DirectRLEnvCfg):
    num_actions: int = 1
    num_observations: int = 2


class PushEnv(DirectRLEnv):
    """Its action is the force on the cart."""

    def _apply_actions(self) -> None:
        self.scene["robot"].data.joint_effort_target[:, :1].copy_(self.actions)

    def _get_observations(self):
        return {"policy": self.scene["robot"].data.joint_pos}

    def _get_rewards(self):
        return torch.ones(self.num_envs)

    def _get_dones(self):
        out_of_time = self.episode_length_buf >= self.max_episode_length
        return torch.zeros_like(out_of_time), out_of_time

    def _reset_state(self, mask):
        pass


def test_a_direct_environment_is_recorded_too():
    task = analytic_cartpole_env_cfg(num_envs=2)
    cfg = PushEnvCfg(physics=task.physics, scene=task.scene, decimation=1, episode_length_s=5 / 120)
    cfg.recorder = RecorderCfg(terms=transition_terms())
    env = PushEnv(cfg)
    for step in range(3):
        env.step(torch.full((2, 1), float(step)))
    episode = env.recorder_manager.get_episode(1)
    assert episode.steps["actions"].flatten().tolist() == [0.0, 1.0, 2.0]
    assert episode.steps["obs"].shape == (3, 2)
    assert not [key for key in episode.steps if key.startswith(("commands", "processed_actions"))]
