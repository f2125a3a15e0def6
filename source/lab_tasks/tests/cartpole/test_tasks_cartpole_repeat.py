"""Runs of the cart-pole repeat bit for bit: eager or captured, stopped and resumed."""

from __future__ import annotations

import pytest
import torch

from lab_core.envs import RLEnv
from lab_core.registry import get_task
from lab_core.testing import check_masked_reset

TASKS = ("Lab-Cartpole", "Lab-Cartpole-Direct")


def make(task: str, num_envs: int = 8) -> RLEnv:
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = num_envs
    cfg.episode_length_s = 1.0
    return cfg.build()


def rollout(env: RLEnv, steps: int, seed: int) -> list[torch.Tensor]:
    """Returns everything public of every step."""
    generator = torch.Generator().manual_seed(seed)
    outputs = []
    for _ in range(steps):
        observations, *rest, extras = env.step(torch.randn(env.num_envs, 1, generator=generator) * 2.0)
        data = env.scene["robot"].data
        outputs += [observations["policy"], *rest, extras["final_obs"]["policy"], *extras["log"].values()]
        outputs += [data.joint_acc.clone(), data.applied_effort.clone(), data.body_link_pose_w.clone()]
    return outputs


def rollout_with_hard_reset(env: RLEnv) -> list[torch.Tensor]:
    outputs = rollout(env, 150, seed=1)
    env.physics.rebuild()
    outputs.append(env.reset()[0]["policy"])
    return outputs + rollout(env, 150, seed=2)


@pytest.mark.parametrize("task", TASKS)
def test_eager_equals_captured_over_300_steps_with_resets_and_a_hard_reset(task, monkeypatch):
    captured = make(task)
    assert captured.physics.capture_context.enabled
    expected = rollout_with_hard_reset(captured)
    monkeypatch.setenv("LAB_CAPTURE", "0")
    eager = make(task)
    assert not eager.physics.capture_context.enabled
    results = rollout_with_hard_reset(eager)
    assert sum(int(done.sum()) for done in results if done.dtype == torch.bool) > 20
    assert all(torch.equal(a, b) for a, b in zip(expected, results, strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_stored_state_continues_bit_for_bit_in_a_new_environment(task):
    first = make(task)
    rollout(first, 100, seed=1)
    state = first.state_dict()
    expected = rollout(first, 100, seed=2)
    second = make(task)
    second.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(expected, rollout(second, 100, seed=2), strict=True))


@pytest.mark.parametrize("task", TASKS)
def test_reset_of_one_world_leaves_every_other_row_alone(task):
    """Every tensor of the environment, its managers, the physics and the robot."""
    env = make(task)
    rollout(env, 10, seed=1)
    # The mask of worlds with authored state is followed by the reset; it is empty between two steps.
    owners = {"env": env, "physics": env.physics}

    def reset(mask: torch.Tensor) -> None:
        env._announce_reset(mask)
        env._reset_envs()

    changed = check_masked_reset(owners, reset, env.num_envs, keep=("physics.written",))
    assert {"env.episode_length_buf", "physics.engine.joint_q", "physics.entities.robot.joint_pos"} <= changed


@pytest.mark.parametrize("task", TASKS)
def test_physics_is_stored_once(task):
    state = make(task).state_dict()
    assert "entities.robot.joint_pos" in state["physics"]
    assert not [name for name in state["environment"] if name.startswith("physics")]
