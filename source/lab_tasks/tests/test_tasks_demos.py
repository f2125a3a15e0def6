"""The policies that come with tasks still do what they were trained for."""

from __future__ import annotations

import pytest
import torch

from lab_core.mdp import settable_commands
from lab_core.registry import get_task, task_ids
from lab_core.rollouts import find_policy, make_policy

DEMOS = [task for task in task_ids() if task.startswith("Lab-") and get_task(task).demo]


def test_some_task_has_one():
    assert "Lab-Velocity-Rough-Go2" in DEMOS


@pytest.mark.parametrize("task", DEMOS)
def test_the_file_is_there(task):
    assert get_task(task).demo_path().is_file()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["Lab-Cartpole-Learned", "Lab-Cartpole"])
def test_the_pole_that_was_balanced_in_a_model_is_balanced_in_its_teacher_too(task):
    pytest.importorskip("onnxruntime", reason="an ONNX policy needs it")
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = 32
    env = cfg.build("cpu")
    policy = make_policy(find_policy("demo", get_task("Lab-Cartpole-Learned")), env)
    observations, _ = env.reset(seed=1)
    total, ended = torch.zeros(32), torch.zeros(32, dtype=torch.bool)
    for _ in range(299):
        observations, reward, terminated, _, _ = env.step(policy(observations))
        total, ended = total + reward, ended | terminated
    env.close()
    assert not ended.any() and total.mean() > 4.8


@pytest.mark.slow
@pytest.mark.parametrize(("sideways", "forwards"), [(0.0, 0.8), (0.0, -0.8), (0.5, 0.0)])
def test_the_go2_walks_over_stairs_boxes_and_slopes_as_commanded(rough_go2, sideways, forwards):
    """At 0.69 to 0.73 m/s of 0.8, when it was trained; faults of physics, sensors or terms would make it stumble."""
    env, policy = rough_go2
    (command,) = settable_commands(env).values()
    command.set_command([forwards, sideways, 0.0])
    observations, _ = env.reset(seed=1)
    data = env.scene["robot"].data
    distance, falls = torch.zeros(env.num_envs, 2), 0
    with torch.inference_mode():
        for step in range(250):
            observations, _, terminated, _, _ = env.step(policy(observations))
            falls += int(terminated.sum())
            if step >= 50:
                distance += data.root_com_lin_vel_b[:, :2] * env.step_dt
    forwards_speed, sideways_speed = (distance.mean(dim=0) / (200 * env.step_dt)).tolist()
    assert forwards_speed == pytest.approx(0.88 * forwards, abs=0.15)
    assert sideways_speed == pytest.approx(0.88 * sideways, abs=0.15)
    assert falls <= 1


@pytest.fixture(scope="module")
def rough_go2():
    pytest.importorskip("onnxruntime")
    task = get_task("Lab-Velocity-Rough-Go2")
    cfg = task.make_env_cfg(play=True)
    cfg.seed = 1
    env = cfg.build("cpu")
    yield env, make_policy(find_policy("demo", task), env)
    env.close()
