"""``lab bench``, and the timing of stages behind it."""

from __future__ import annotations

import json
import math
import time
from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.agents import AgentCfg
from lab_core.cli import main
from lab_core.envs import ManagerBasedRLEnv
from lab_core.errors import LabError
from lab_core.managers import EventTermCfg, SceneEntityCfg
from lab_core.physics import HealthReport
from lab_core.recorder import RecorderCfg
from lab_core.recorder.presets import task_terms
from lab_core.registry import TaskSpec, register_task
from lab_core.rollouts import make_learner, time_learning
from lab_core.rollouts.benchmark import BenchmarkError, StageClock, time_step
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

TASK = "Bench-Cartpole"
STEP = [
    "action",
    "action",
    "physics",
    "terminations",
    "rewards",
    "interval events",
    "commands",
    "final observations",
    "reset",
    "observations",
]


def env_cfg(play: bool = False):
    del play
    return analytic_cartpole_env_cfg(num_envs=4, episode_length_s=0.25)  # 15 steps


register_task(TaskSpec(id=TASK, env_cfg=env_cfg))


class Watch:
    """What the clocks of the benchmark show [s]."""

    now = 0.0


@pytest.fixture
def watch(monkeypatch):
    watch = Watch()
    monkeypatch.setattr(time, "perf_counter", lambda: watch.now)
    return watch


# Marks


def test_the_stages_of_a_step_are_marked_in_order():
    env, marks = env_cfg().build(), []
    with env.mark_stages(marks.append):
        env.step(torch.zeros(4, 1))
    assert marks == ["", *STEP]


def test_interval_events_have_a_stage_of_their_own():
    cfg, marks = env_cfg(), []
    cfg.events["push"] = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="interval",
        interval_range_s=(0.01, 0.02),
        params={"position_range": (0.1, 0.2), "velocity_range": (0.0, 0.0), "asset_cfg": SceneEntityCfg()},
    )
    env = cfg.build()
    with env.mark_stages(marks.append):
        for _ in range(20):  # with resets, whose events are part of another stage
            env.step(torch.zeros(4, 1))
    assert marks == ["", *STEP] * 20


def test_a_recorder_has_a_stage():
    cfg, marks = env_cfg(), []
    cfg.recorder = RecorderCfg(terms=task_terms(cfg))
    env = cfg.build()
    with env.mark_stages(marks.append):
        env.step(torch.zeros(4, 1))
    assert [mark for mark in marks if mark != "recorder"] == ["", *STEP]
    assert marks.count("recorder") == 7
    env.close()


def test_marks_change_no_result_and_leave_nothing_behind():
    plain, marked = env_cfg().build(), env_cfg().build()
    before = set(vars(marked)), set(vars(marked.physics)), set(vars(marked.recorder_manager))
    actions = torch.ones(4, 1)
    with marked.mark_stages(lambda stage: None):
        for _ in range(20):
            expected, found = plain.step(actions), marked.step(actions)
    assert torch.equal(expected[0]["policy"], found[0]["policy"])
    assert (set(vars(marked)), set(vars(marked.physics)), set(vars(marked.recorder_manager))) == before


def test_a_clock_sums_up_stages_and_leaves_out_what_is_between_steps(watch):
    clock = StageClock(torch.device("cpu"))
    for _ in range(3):
        watch.now += 7.0
        clock.mark("")
        watch.now += 0.5
        clock.mark("walking")
        watch.now += 0.25
        clock.mark("talking")
    clock.add()
    assert clock.total_ms == {"walking": 1500.0, "talking": 750.0}


# Timing


def test_durations_are_means_over_steps(watch):
    env = env_cfg().build()
    physics_step, compute_reward, reset_envs = env.physics.step, env._compute_reward, env._reset_envs

    def lasting(seconds, method):
        def call(*args):
            watch.now += seconds
            method(*args)

        return call

    env.physics.step = lasting(4.0, physics_step)
    env._compute_reward = lasting(1.0, compute_reward)
    env._reset_envs = lasting(0.5, reset_envs)
    timing = time_step(env, steps=20)
    assert (timing.env_step_ms, timing.physics_ms, timing.host_ms) == (5500.0, 4000.0, 5500.0)
    assert (timing.env_step_over_physics, timing.stages_over_physics_stage) == (1.375, 1.375)
    assert timing.env_steps_per_s == pytest.approx(4 / 5.5)
    assert list(timing.stages_ms) == list(dict.fromkeys(STEP))
    spent = {stage: ms for stage, ms in timing.stages_ms.items() if ms}
    assert spent == {"physics": 4000.0, "rewards": 1000.0, "reset": 500.0}


def test_resets_of_the_timed_steps_are_counted():
    assert time_step(env_cfg().build(), steps=30, action_std=0.0).resets >= 2 * 4  # an episode lasts 15 steps at most
    assert time_step(analytic_cartpole_env_cfg(4).build(), steps=30, action_std=0.0).resets == 0


def test_a_front_end_without_graphs_has_no_launches():
    timing = time_step(env_cfg().build(), steps=2)
    assert (timing.graph_launches, timing.islands) == (None, ())


def test_a_timing_with_an_overflow_is_refused(monkeypatch):
    env = env_cfg().build()
    report = HealthReport(overflows={"contacts": "3 of 4 worlds, raise physics.solver.nconmax from 8 to at least 12"})
    monkeypatch.setattr(env.physics, "health", lambda: report)
    with pytest.raises(BenchmarkError, match=r"contacts overflowed: 3 of 4 worlds, raise physics\.solver\.nconmax"):
        time_step(env, steps=2)


def test_a_timing_with_a_non_finite_world_is_refused():
    env = env_cfg().build()
    env.physics.entities["robot"].joint_vel[1, 0] = math.nan
    with pytest.raises(BenchmarkError, match="1 times an environment went non-finite: lower"):
        time_step(env, steps=2)


def test_a_timing_with_a_reward_that_is_not_finite_is_refused(monkeypatch):
    env = env_cfg().build()
    monkeypatch.setattr(env, "_compute_reward", lambda: env.reward_buf.fill_(math.inf))
    with pytest.raises(BenchmarkError, match="observations or rewards that are not finite"):
        time_step(env, steps=2)


# Command


def test_the_command_prints_a_table_and_writes_a_file(tmp_path, capsys):
    path = tmp_path / "results" / "step.json"
    argv = ["bench", TASK, "--frontend", "torch", "--num-envs", "3", "--steps", "20", "--device", "cpu"]
    assert main([*argv, "--json", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{TASK}: 3 environments, torch front end, analytic"
    for start in (
        "physics ",
        "reset ",
        "environment step ",
        "step / physics alone ",
        "stages / physics stage ",
        "host, until",
        "environments reset ",
    ):
        assert any(line.startswith(start) for line in lines), start
    result = json.loads(path.read_text())
    assert (result["task"], result["frontend"], result["device"], result["num_envs"]) == (TASK, "torch", "cpu", 3)
    assert result["env_steps_per_s"] == pytest.approx(3 / result["env_step_ms"] * 1e3, rel=0.01)
    assert set(result["stages_ms"]) == set(STEP)
    assert "torch" in result["versions"]["packages"]


def test_the_command_draws_actions_as_wide_as_told(monkeypatch, capsys):
    seen, step = [], ManagerBasedRLEnv.step
    monkeypatch.setattr(ManagerBasedRLEnv, "step", lambda env, action: seen.append(action) or step(env, action))
    argv = [
        "bench",
        TASK,
        "--frontend",
        "torch",
        "--steps",
        "50",
        "--num-envs",
        "50",
        "--device",
        "cpu",
        "--action-std",
    ]
    for width in ("0.25", "0"):
        seen.clear()
        assert main([*argv, width]) == 0
        assert torch.stack(seen[-50:]).std().item() == pytest.approx(float(width), rel=0.1)


def test_learning_is_split_into_the_parts_that_the_algorithm_names(watch):
    class Learner:
        """Each iteration: 3 s, and 64 steps more."""

        steps = 0

        def iterate(self):
            watch.now += 3.0
            self.steps += 64
            scalars = {"Perf/collection_time": 2.0, "Perf/world_model_time": 1.0, "Perf/total_fps": 21.0, "Loss/a": 9.0}
            return SimpleNamespace(env_steps=self.steps, scalars=scalars)

        def describe(self):
            return ""

    timing = time_learning(env_cfg().build(), Learner(), iterations=4)
    assert (timing.iterations, timing.iteration_ms) == (4, 3000.0)
    assert timing.parts_ms == {"collection": 2000.0, "world model": 1000.0}
    assert timing.env_steps_per_s == pytest.approx(64 / 3.0)


def test_learning_with_an_algorithm_that_nobody_brings_is_refused():
    agent = AgentCfg()
    agent.algorithm = "pppo"
    with pytest.raises(LabError, match="unknown algorithm 'pppo'"):
        make_learner(env_cfg().build(), agent)


def test_timing_the_learning_of_a_task_without_an_agent_is_refused(capsys):
    assert main(["bench", TASK, "--train", "--device", "cpu"]) == 1
    assert f"task '{TASK}' has no agent config" in capsys.readouterr().err


def test_the_command_takes_fields_of_the_environment(capsys):
    assert main(["bench", TASK, "--steps", "1", "--device", "cpu", "--env.scene.num-envs", "5"]) == 0
    assert f"{TASK}: 5 environments" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "Which task?"),
        (["Bench-Cartpoel"], "Bench-Cartpole"),
        ([TASK, "--steps", "0"], "--steps must be at least 1, got 0"),
        ([TASK, "--frontend", "wrap", "--device", "cpu"], "front end 'wrap'"),
    ],
)
def test_wrong_calls_say_what_is_wrong(argv, message, capsys):
    assert main(["bench", *argv]) == 1
    assert message in capsys.readouterr().err


def test_the_command_fails_when_the_timing_is_not_valid(tmp_path, capsys):
    path = tmp_path / "step.json"
    unstable = ["--env.physics.dt", "1e30"]
    assert main(["bench", TASK, "--steps", "5", "--device", "cpu", "--json", str(path), *unstable]) == 1
    assert "The timing is not valid" in capsys.readouterr().err
    assert not path.exists()
