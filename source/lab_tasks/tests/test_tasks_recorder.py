"""Recording real tasks, and repeating what was recorded."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import warp as wp

from lab_core import mdp
from lab_core.datasets import DatasetCfg, RecordedDataset
from lab_core.envs import make_env
from lab_core.managers import EventTermCfg
from lab_core.recorder import (
    EpisodeCollector,
    RecorderCfg,
    RecorderManager,
    RecorderTermCfg,
    SubstepContacts,
    SubstepEfforts,
    SubstepStates,
    flatten,
    sensor_values,
    task_terms,
    transition_terms,
)
from lab_core.registry import get_task
from lab_core.rollouts import build_replay_env, replay_episodes
from lab_core.scene import IdealPDActuatorCfg, LSTMActuatorCfg
from lab_newton.backend import NewtonBackend
from lab_newton.state import NewtonArticulation
from lab_warp.envs import WarpRLEnv
from lab_warp.testing import step_report


def task_cfg(task: str, num_envs: int, episode_length_s: float):
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = num_envs
    cfg.episode_length_s = episode_length_s
    return cfg


def run(env, steps: int, seed: int = 0, scale: float = 1.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    width = env.single_action_space.shape[0]
    outputs = []
    for _ in range(steps):
        observations, *rest, _ = env.step(scale * torch.randn(env.num_envs, width, generator=generator))
        data = env.scene["robot"].data
        outputs += [observations["policy"], *rest, data.joint_pos.clone(), data.root_link_pose_w.clone()]
    return outputs


def check_repeats(cfg, folder: Path, steps: int, scale: float = 1.0, frontend: str = "torch") -> RecordedDataset:
    """Records a task and repeats all its episodes, in another number of worlds and with another seed, bit for bit."""
    cfg.recorder = RecorderCfg(terms=task_terms(cfg), dataset=DatasetCfg(folder=folder))
    env = make_env(cfg, "cpu", frontend)
    run(env, steps, scale=scale)
    env.close()
    dataset = RecordedDataset(folder)
    again = build_replay_env(dataset, 3)
    again.reset(seed=123)
    report = replay_episodes(dataset, again, range(len(dataset)), tolerance=0.0)
    assert report.ok, report.mismatches[0]
    assert report.episodes == len(dataset) > cfg.scene.num_envs
    return dataset


@pytest.mark.parametrize("task", ["Lab-Cartpole", "Lab-Cartpole-Direct"])
@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_cartpole_repeats(task, frontend, tmp_path):
    check_repeats(task_cfg(task, 4, 0.5), tmp_path, 75, scale=3.0, frontend=frontend)


def contents(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """All that an HDF5 file holds: attributes with their types and the forms of arrays, in order; and their values."""
    facts, arrays = {}, {}

    def visit(name: str, item) -> None:
        facts[name] = {key: (type(value), value) for key, value in item.attrs.items()}
        if isinstance(item, h5py.Dataset):
            facts[name]["array"] = (item.dtype, item.shape, item.chunks)
            arrays[name] = np.asarray(item[()])

    with h5py.File(path) as file:
        visit("/", file)
        file.visititems(visit)
    return facts, arrays


@pytest.mark.parametrize("task", ["Lab-Cartpole", "Lab-Cartpole-Direct"])
def test_both_front_ends_write_equal_files(task, tmp_path):
    """From the same states, with the same actions: every attribute, group, array, type and shape, and every whole
    number, is the same; numbers of floating point agree to rounding."""
    for frontend in ("torch", "warp"):
        cfg = task_cfg(task, 4, 0.5)
        cfg.recorder = RecorderCfg(terms=task_terms(cfg), dataset=DatasetCfg(folder=tmp_path / frontend))
        env = make_env(cfg, "cpu", frontend)
        state = env.scene.get_state()
        state["articulation"]["robot"]["joint_position"] = torch.linspace(-0.5, 0.5, 8).view(4, 2)
        state["articulation"]["robot"]["joint_velocity"] = torch.linspace(0.5, -0.5, 8).view(4, 2)
        env.reset_to(state)
        run(env, env.max_episode_length)  # all worlds end at once; what follows is drawn differently
        env.close()
    (expected, values), (given, others) = (
        contents(tmp_path / frontend / "dataset-00000.hdf5") for frontend in ("torch", "warp")
    )
    assert list(given) == list(expected)
    assert given == expected
    assert sum(name.count("/") == 1 and "demo_" in name for name in expected) == 4
    for name, value in values.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(others[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
        else:
            assert np.array_equal(others[name], value), name


def test_a_quadruped_repeats_in_spite_of_commands_pushes_masses_and_wrenches(tmp_path):
    cfg = task_cfg("Lab-Velocity-Flat-Go2", 4, 0.6)
    cfg.events["push_robot"].interval_range_s = (0.1, 0.2)
    cfg.events["pull"] = EventTermCfg(
        func=mdp.apply_external_force_torque,
        mode="reset",
        params={"force_range": (-5.0, 5.0), "torque_range": (-1.0, 1.0)},
    )
    cfg.commands["base_velocity"].resampling_time_range = (0.1, 0.3)
    dataset = check_repeats(cfg, tmp_path, 45, scale=0.5)
    episode = dataset.load(0)
    speed = "states/articulation/robot/root_velocity"
    assert (episode.steps[f"pre_{speed}"][1:] != episode.steps[speed][:-1]).any()
    assert episode.steps["commands/base_velocity"].unique(dim=0).shape[0] > 1
    assert episode.steps["contacts/contact_forces/net_forces_w"].abs().max() > 1.0
    masses = torch.stack([e.initial["initial_conditions/properties/robot/body_mass"] for e in dataset])
    assert masses.unique(dim=0).shape[0] > 1


def test_delayed_actuators_repeat_with_what_they_remembered(tmp_path):
    cfg = task_cfg("Lab-Velocity-Flat-Go2", 4, 0.3)
    for actuator in cfg.scene.entities["robot"].actuators.values():
        assert not isinstance(actuator, LSTMActuatorCfg)
        actuator.min_delay, actuator.max_delay = 0, 4
    dataset = check_repeats(cfg, tmp_path, 40)
    lags = torch.cat([episode.initial["initial_conditions/actuators/robot.lag"] for episode in dataset])
    assert lags.unique().numel() > 2


def test_recording_changes_nothing_in_a_captured_task():
    cfg = task_cfg("Lab-Velocity-Flat-Go2", 4, 0.4)
    plain = run(cfg.build(), 60)
    cfg.recorder = RecorderCfg(terms=task_terms(cfg))
    assert all(torch.equal(a, b) for a, b in zip(plain, run(cfg.build(), 60), strict=True))


def substep_terms() -> dict[str, RecorderTermCfg | None]:
    return {
        "substep_efforts": RecorderTermCfg(func=SubstepEfforts, phase="post_physics"),
        "substep_states": RecorderTermCfg(func=SubstepStates, phase="post_physics"),
    }


@pytest.mark.parametrize("task", ["Lab-Cartpole-Direct", "Lab-Velocity-Flat-AnymalC"])
def test_all_terms_of_a_task_may_be_part_of_a_graph(task):
    """On the CPU, where torch cannot be captured, that is the only thing that keeps them between graphs."""
    cfg = task_cfg(task, 2, 0.1)
    cfg.recorder = RecorderCfg(terms=task_terms(cfg))
    env = make_env(cfg, "cpu", "warp")
    assert isinstance(env, WarpRLEnv)
    run(env, 8)
    phases = ["pre_step", "pre_physics", "post_physics", "post_step", "post_reset"]
    if "Direct" in task:
        phases.remove("pre_physics")
    expected = tuple(f"recorder: record_{phase} (torch cannot be captured on the CPU)" for phase in phases)
    assert step_report(env).islands == expected


@pytest.mark.parametrize("task", ["Lab-Cartpole-Direct", "Lab-Velocity-Rough-Go2"])
def test_terms_of_a_task_read_buffers_that_keep_their_addresses(task):
    """A graph reads where the terms read when it was recorded. Computed anew is the pose relative to the origin."""
    cfg = task_cfg(task, 2, 0.2)
    for actuator in cfg.scene.entities["robot"].actuators.values():
        if isinstance(actuator, IdealPDActuatorCfg) and "Go2" in task:
            actuator.max_delay = 2
    env = make_env(cfg, "cpu", "warp")
    recorder = RecorderManager(RecorderCfg(terms=task_terms(cfg) | substep_terms()), env)

    def addresses() -> dict[str, int]:
        values = {name: recorder.terms._call(name) for name in recorder.terms.term_names}
        flags = (env.reset_terminated, env.reset_time_outs, env.reset_buf, env.physics.non_finite)
        leaves = [leaf for name, value in values.items() for leaf in flatten(name, value)]
        return {name: leaf.data_ptr() for name, leaf in [*leaves, *flatten("flags", dict(enumerate(flags)))]}

    run(env, 3)
    before = addresses()
    run(env, 25)
    env.reset(mask=[0])
    after = addresses()
    moved = {name for name, address in before.items() if after[name] != address}
    computed = {"initial_state", "pre_states", "states", "substep_states"}
    assert {name.split("/")[0] for name in moved} <= computed
    assert all(name.endswith("root_pose") for name in moved)
    assert len(before) > 25


@pytest.mark.gpu
@pytest.mark.parametrize("substeps", [False, True])
@pytest.mark.parametrize("task", ["Lab-Cartpole", "Lab-Cartpole-Direct", "Lab-Velocity-Flat-AnymalC"])
def test_a_recorded_step_is_one_graph_launch(task, substeps, monkeypatch):
    """Of 4,096 worlds, with all terms of the task, a ring, and episodes that end and are handed on."""
    cfg = task_cfg(task, 4096, 0.5)
    collector = EpisodeCollector()
    env = make_env(cfg, "cuda:0", "warp")
    assert isinstance(env, WarpRLEnv)
    recorded = task_terms(cfg) | (substep_terms() if substeps else {})
    env.set_recorder(RecorderManager(RecorderCfg(terms=recorded), env, [collector]))
    action = torch.zeros(4096, *env.single_action_space.shape, device="cuda:0")
    env.step(action)
    launches, launch = [], wp.capture_launch
    monkeypatch.setattr(wp, "capture_launch", lambda graph, *args: (launches.append(graph), launch(graph, *args)))
    for _ in range(60):
        env.step(action)
    assert (step_report(env).num_graphs, step_report(env).islands) == (1, ())
    assert len(launches) == 60 and len(set(map(id, launches))) == 1
    env.close()
    assert len(collector.episodes) >= 2 * 4096


@pytest.mark.parametrize(
    ("task", "decimation"), [("Lab-Cartpole", 1), ("Lab-Cartpole", 4), ("Lab-Velocity-Flat-Go2", 4)]
)
@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_every_step_is_one_row_with_an_axis_of_its_substeps(task, decimation, frontend):
    """Also of a recorder that comes when the step has been recorded; the last substep is the one that the step ends
    with."""
    cfg = task_cfg(task, 4, 0.4)
    cfg.decimation = decimation
    env = make_env(cfg, "cpu", frontend)
    run(env, 3)
    recorded = transition_terms() | substep_terms()
    if "Velocity" in task:
        contacts = RecorderTermCfg(func=SubstepContacts, phase="post_physics", params={"sensor": "contact_forces"})
        recorded["substep_contacts"] = contacts
        last = {"sensor": "contact_forces", "fields": ("net_forces_w",)}
        recorded["contacts"] = RecorderTermCfg(func=sensor_values, phase="post_step", params=last)
    collector = EpisodeCollector()
    env.set_recorder(RecorderManager(RecorderCfg(terms=recorded), env, [collector]))
    run(env, 60, scale=0.5)
    env.close()
    assert sum(len(episode) for episode in collector.episodes) == 60 * 4
    for episode in collector.episodes:
        steps = episode.steps
        pairs = {"substep_efforts/robot": "applied_effort/robot"}
        if "Velocity" in task:
            pairs["substep_contacts"] = "contacts/net_forces_w"
        for name in ("root_pose", "root_velocity", "joint_position", "joint_velocity"):
            pairs[f"substep_states/articulation/robot/{name}"] = f"states/articulation/robot/{name}"
        for substeps, last in pairs.items():
            assert steps[substeps].shape[1] == decimation
            assert torch.equal(steps[substeps][:, -1], steps[last]), substeps
    positions = collector.episodes[0].steps["substep_states/articulation/robot/joint_position"].flatten(0, 1)
    assert (positions.diff(dim=0) != 0.0).any(dim=1).float().mean() > 0.9


def recorded_effort_entered_the_solver() -> bool:
    """Compares with the law of the cart's motor in the state before the only substep of each step."""
    cfg = task_cfg("Lab-Cartpole", 4, 0.3)
    cfg.decimation = 1
    env = cfg.build()
    collector = EpisodeCollector()
    env.set_recorder(RecorderManager(RecorderCfg(terms=transition_terms()), env, [collector]))
    run(env, 80, scale=6.0)
    motor = cfg.scene.entities["robot"].actuators["cart"]
    gain = cfg.actions["cart_effort"].scale
    column = env.scene["robot"].joint_names.index("slider_to_cart")
    recorded, expected = [], []
    for episode in collector.episodes:
        velocity = episode.steps["pre_states/articulation/robot/joint_velocity"][:, column]
        effort = gain * episode.steps["actions"][:, 0] - motor.damping * velocity
        recorded.append(episode.steps["applied_effort/robot"][:, column])
        expected.append(effort.clamp(-motor.effort_limit, motor.effort_limit))
    recorded, expected = torch.cat(recorded), torch.cat(expected)
    assert len(recorded) > 200 and (recorded.abs() == motor.effort_limit).any()
    return torch.allclose(recorded, expected, atol=1e-2)


def test_the_recorded_effort_entered_the_solver():
    assert recorded_effort_entered_the_solver()


def test_mutation_an_effort_copied_behind_the_solver_is_noticed(monkeypatch):
    """Eagerly, with the copy moved behind the solver step, where the effort of the new state is read."""
    monkeypatch.setenv("LAB_CAPTURE", "0")
    solve, read_effort = NewtonBackend._solve, NewtonArticulation.read_effort
    monkeypatch.setattr(NewtonArticulation, "read_effort", lambda self, control: None)

    def late(self, is_last: bool) -> None:
        solve(self, is_last)
        self._control.joint_f.zero_()
        for name, entity in self._entities.items():
            self._actuators[name].step(self._state, self._control, self.dt)
            read_effort(entity, self._control)

    monkeypatch.setattr(NewtonBackend, "_solve", late)
    assert not recorded_effort_entered_the_solver()
