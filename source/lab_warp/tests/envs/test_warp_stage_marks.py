"""Marks between the stages of a captured step, and the benchmark that uses them."""

from __future__ import annotations

import pytest
import torch

from lab_core.envs import make_env
from lab_core.rollouts import time_step
from lab_core.testing import analytic_cartpole_env_cfg

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


def make(device: str = "cpu"):
    return make_env(analytic_cartpole_env_cfg(num_envs=4, episode_length_s=0.25), device, "warp")


def step_report(env):
    return next(report for report in env.capture_report() if report.stage.endswith("._step"))


def test_a_replayed_step_marks_its_stages_in_order():
    env, marks = make(), []
    with env.mark_stages(marks.append):
        for _ in range(3):
            env.step(torch.zeros(4, 1))
    assert marks == ["", *STEP] * 3


def test_marks_change_no_result_and_leave_no_island_behind():
    plain, marked = make(), make()
    actions = torch.ones(4, 1)
    for env in (plain, marked):
        env.step(actions)
    before = step_report(marked)
    with marked.mark_stages(lambda stage: None):
        for _ in range(20):  # with resets
            plain.step(actions)
            marked.step(actions)
    assert len(step_report(marked).islands) > len(before.islands)
    expected, found = plain.step(actions), marked.step(actions)
    assert torch.equal(expected[0]["policy"], found[0]["policy"])
    after = step_report(marked)
    assert (after.islands, after.num_graphs) == (before.islands, before.num_graphs)


def test_no_marks_are_left_behind_by_an_interrupted_measurement():
    env, marks = make(), []
    with pytest.raises(KeyboardInterrupt), env.mark_stages(marks.append):
        env.step(torch.zeros(4, 1))
        raise KeyboardInterrupt
    marks.clear()
    env.step(torch.zeros(4, 1))
    assert marks == []


def test_a_reset_from_outside_is_no_part_of_a_step():
    env, marks = make(), []
    with env.mark_stages(marks.append):
        env.reset()
    assert marks == []


def test_the_benchmark_tells_launches_and_islands():
    env = make()
    timing = time_step(env, steps=3)
    assert timing.graph_launches == step_report(env).num_graphs == len(timing.islands) + 1
    assert "physics analytic: its steps are no kernels of Warp" in timing.islands[0]
    assert list(timing.stages_ms) == list(dict.fromkeys(STEP))


@pytest.mark.gpu
def test_marks_on_a_gpu_are_events_of_the_graphs():
    env, marks = make("cuda"), []
    with env.mark_stages(marks.append):
        for _ in range(3):
            env.step(torch.zeros(4, 1, device="cuda"))
    assert marks == ["", *STEP]
    timing = time_step(env, steps=20)
    assert list(timing.stages_ms) == list(dict.fromkeys(STEP))
    assert all(ms >= 0.0 for ms in timing.stages_ms.values())
    assert timing.stages_ms["physics"] > 0.0
