"""Gymnasium's robots, whose model files nobody changed: beside C MuJoCo, and as tasks of ``scripts/gym_robots.py``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lab_core.config import package_path
from lab_core.envs import make_env

SCRIPT = Path(__file__).parents[4] / "scripts" / "gym_robots.py"
ROBOTS = ("Hopper", "Walker2d", "HalfCheetah", "Humanoid")


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("gym_robots", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["gym_robots"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ROBOTS)
def test_the_file_moves_as_in_c_mujoco(script, load, name: str) -> None:
    robot = load(str(package_path(script.RUNNERS[name].asset)))
    robot.push()
    robot.step_both(100)
    assert robot.distance() < 2e-4
    assert abs(robot.data.qpos - robot.compiled.qpos0).max() > 0.02, "it moved"


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_the_task_steps_and_its_motors_drive(script, name: str) -> None:
    runner = script.RUNNERS[name]
    cfg = script.env_cfg(runner)
    cfg.scene.num_envs = 2
    env = make_env(cfg, device="cpu")
    env.reset(seed=0)
    for _ in range(5):
        observations, rewards, *_ = env.step(torch.tensor([[0.0], [1.0]]).expand(2, env.action_space.shape[1]))
    assert torch.isfinite(observations["policy"]).all() and torch.isfinite(rewards).all()
    assert env.health().ok
    data = env.scene["robot"].data
    limits = data.joint_effort_limits[1]
    assert data.applied_effort[1].tolist() == pytest.approx(limits.tolist()), "an action of 1 is all that they can"
    assert (limits > 0.0).sum() == env.action_space.shape[1]
    assert not data.applied_effort[0].any()
    env.close()
