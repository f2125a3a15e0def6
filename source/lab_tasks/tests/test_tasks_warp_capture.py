"""The captured step of every task."""

from __future__ import annotations

import copy
import dataclasses
import gc
import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from lab_core.envs import ManagerBasedRLEnvCfg, RLEnv, make_env
from lab_core.registry import get_task
from lab_core.signals import UniformNoiseCfg
from lab_warp.envs import WarpRLEnv
from lab_warp.testing import assert_same_results, rollout, step_report

MANAGER_TASKS = (
    "Lab-Cartpole",
    "Lab-Ant",
    "Lab-Velocity-Flat-Go2",
    "Lab-Velocity-Flat-AnymalC",
    "Lab-Velocity-Rough-Go2",
    "Lab-Velocity-Rough-AnymalC",
)
TASKS = (*MANAGER_TASKS, "Lab-Cartpole-Direct", "Lab-Ant-Direct")
QUICK = ("Lab-Cartpole", "Lab-Cartpole-Direct", "Lab-Velocity-Flat-Go2")
N = 4
LONG = (pytest.mark.slow, pytest.mark.long)


def make(
    task: str, device: str = "cpu", num_envs: int = N, episode_steps: int = 20, deterministic: bool = False
) -> WarpRLEnv:
    cfg = get_task(task).make_env_cfg()
    cfg.deterministic = deterministic
    cfg.scene.num_envs = num_envs
    cfg.episode_length_s = episode_steps * cfg.decimation * cfg.physics.dt
    for event in cfg.events.values():
        if event is not None and event.mode == "interval":
            event.interval_range_s = (0.05, 0.2)  # several in an episode
    env = make_env(cfg, device, frontend="warp")
    assert isinstance(env, WarpRLEnv)
    return env


def edit_terms(env: RLEnv) -> list[str]:
    """Changes terms of every kind that the task has, through ``set_term_cfg``; returns what was changed."""
    if not isinstance(env.cfg, ManagerBasedRLEnvCfg):
        return []
    managers: Any = env
    edited = []

    rewards = managers.reward_manager
    first, second, *_ = rewards.term_names
    weight = rewards.get_term_cfg(first).weight
    rewards.set_term_cfg(first, dataclasses.replace(rewards.get_term_cfg(first), weight=2.0 * weight))
    rewards.set_term_cfg(second, dataclasses.replace(rewards.get_term_cfg(second), weight=0.0))
    edited += ["weight", "weight 0"]
    for name in rewards.term_names:
        cfg = copy.deepcopy(rewards.get_term_cfg(name))
        number = next((key for key, value in cfg.params.items() if isinstance(value, float)), None)
        if number is not None:
            cfg.params[number] = 1.1 * cfg.params[number] + 0.01
            rewards.set_term_cfg(name, cfg)
            edited.append("params")
            break

    observations = managers.observation_manager
    name = observations.term_names[0]
    noise = UniformNoiseCfg(n_min=-0.05, n_max=0.05)
    cfg = dataclasses.replace(observations.get_term_cfg(name), noise=noise, clip=(-0.5, 0.5), scale=3.0)
    observations.set_term_cfg(name, cfg)
    edited.append("noise, clip and scale")

    commands = managers.command_manager
    for name in commands.term_names:
        cfg = copy.deepcopy(commands.get_term_cfg(name))
        cfg.ranges.lin_vel_x = (0.3, 0.4)
        commands.set_term_cfg(name, cfg)
        edited.append("command range")

    events = managers.event_manager
    for name in events.term_names:
        cfg = copy.deepcopy(events.get_term_cfg(name))
        if cfg.mode == "reset" and "position_range" in cfg.params:
            cfg.params["position_range"] = (0.1, 0.2)
            events.set_term_cfg(name, cfg)
            edited.append("event range")
            break
    return edited


def edited_rollout(env: RLEnv, steps: int) -> list[dict[str, torch.Tensor]]:
    """Forced resets, edits of terms, and a rebuilt physics between four parts of a rollout."""
    part = steps // 4
    results = rollout(env, part, seed=1)
    env.reset(mask=[0, 2])
    results += rollout(env, part, seed=2)
    edit_terms(env)
    results += rollout(env, part, seed=3)
    env.physics.rebuild()
    env.reset()
    return results + rollout(env, part, seed=4)


@pytest.mark.parametrize(
    ("task", "steps"),
    [(task, 60) for task in QUICK] + [pytest.param(task, 1000, marks=LONG) for task in TASKS],
)
def test_captured_equals_eager_bitwise(task, steps, monkeypatch):
    captured = make(task)
    assert captured.capture_context.enabled
    expected = edited_rollout(captured, steps)
    report = step_report(captured)
    captured.close()
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = make(task)
    assert not eager.capture_context.enabled
    assert_same_results(edited_rollout(eager, steps), expected)
    eager.close()
    resets = sum(int(result["reset_count"]) for result in expected)
    assert resets >= N
    # The first step; once for all edits that need it; once for the rebuilt physics.
    assert (report.num_graphs, report.num_captures) == (1, 3 if task in MANAGER_TASKS else 2)


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS)
def test_captured_equals_eager_on_a_gpu(task, monkeypatch):
    """Sums over blocks differ by rounding: in 20 steps to 1e-3. Robots that stumble, over rough ground or on light
    legs, make ten thousand times as much of it (measured for ANYmal, moved by 1e-6): those take 10 steps of small
    actions, and their observations agree to 1e-2."""
    stumbles = "Rough" in task or "Anymal" in task
    steps, scale = (10, 0.1) if stumbles else (20, 1.0)
    captured = rollout(make(task, "cuda:0"), steps, scale=scale)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = rollout(make(task, "cuda:0"), steps, scale=scale)
    for step, (ours, theirs) in enumerate(zip(captured, eager, strict=True)):
        for name, value in theirs.items():
            if name.startswith(("obs", "reward")) and value.is_floating_point():
                tolerance = 1e-2 if stumbles and name != "reward" else 1e-3
                torch.testing.assert_close(
                    ours[name],
                    value,
                    rtol=tolerance,
                    atol=tolerance,
                    msg=lambda text, at=f"step {step}, {name}": f"{at}: {text}",
                )


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS)
def test_captured_equals_eager_bitwise_on_a_deterministic_gpu(task, monkeypatch):
    steps = 48
    expected = edited_rollout(make(task, "cuda:0", episode_steps=10, deterministic=True), steps)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = edited_rollout(make(task, "cuda:0", episode_steps=10, deterministic=True), steps)
    assert_same_results(eager, expected)
    assert sum(int(result["reset_count"]) for result in expected) >= N


@pytest.mark.parametrize("task", [task for task in MANAGER_TASKS if "Rough" not in task])
def test_the_edits_reach_every_kind_of_term(task):
    """Otherwise the comparison above would show little."""
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = 2
    edited = edit_terms(cfg.build())
    expected = {"weight", "weight 0", "params", "noise, clip and scale", "event range"}
    assert set(edited) == expected | ({"command range"} if "Velocity" in task else set())


@pytest.mark.parametrize("task", TASKS)
def test_a_step_of_every_task_is_one_graph(task):
    """Built from the configuration that the torch front end uses, as it is; the report is printed."""
    env = make(task, num_envs=2, episode_steps=4)
    rollout(env, 9)
    for report in env.capture_report():
        print(task, report)
    report = step_report(env)
    assert (report.num_graphs, report.num_captures, report.islands, report.reason) == (1, 1, (), "captured")
    env.close()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("task", TASKS)
def test_memory_is_flat_and_nothing_is_captured_anew(task, device):
    """Over 1,000 steps with new tensors each."""
    env = make(task, device)

    def steps(number: int) -> None:
        for _ in range(number):
            env.step(torch.randn(env.action_space.shape, device=device))

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects())

    steps(300)
    number, report, memory = tensors(), env.capture_report(), used_memory(device)
    steps(1000)
    growth = used_memory(device) - memory  # before the list of all objects, which takes some itself
    assert env.capture_report() == report
    assert tensors() == number
    assert growth < 2**20


def used_memory(device: str) -> int:
    """Returns bytes: of this process on a CPU, of everybody on a GPU."""
    if device == "cpu":
        statistics = Path("/proc/self/statm")
        if not statistics.exists():
            pytest.skip("reads the memory of the process from /proc")
        return int(statistics.read_text().split()[1]) * resource.getpagesize()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS)
def test_nothing_waits_for_the_device(task, monkeypatch):
    """1,000 steps with the trap of hidden host synchronisations."""
    monkeypatch.setenv("LAB_SYNC_DEBUG", "1")
    env = make(task, "cuda:0")
    action = torch.zeros(env.action_space.shape, device="cuda:0")
    env.step(action)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(1000):
            env.step(action)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert step_report(env).num_graphs == 1
