"""Initial states of the cart-pole and the ant over 1,000 resets, as the physics has them, in all forms of the tasks."""

from __future__ import annotations

import math

import pytest
import torch
import warp as wp

from lab_core.envs import RLEnv, make_env
from lab_core.registry import get_task

N, RESETS = 50, 20
QUARTER = math.pi / 4
CARTPOLE = {"position": ((-1.0, 1.0), (-QUARTER, QUARTER)), "velocity": ((-0.5, 0.5), (-QUARTER, QUARTER))}
ANT = {"position": ((-0.2, 0.2),) * 8, "velocity": ((-0.1, 0.1),) * 8}
EXPECTED = {"Lab-Cartpole": CARTPOLE, "Lab-Cartpole-Direct": CARTPOLE, "Lab-Ant": ANT, "Lab-Ant-Direct": ANT}


def check_uniform(values: torch.Tensor, low: float, high: float) -> None:
    """Within 4.5 standard errors of mean and spread."""
    width, n = high - low, values.numel()
    assert low - 1e-5 <= values.min() < low + 12.0 * width / n
    assert high + 1e-5 >= values.max() > high - 12.0 * width / n
    assert values.mean().item() == pytest.approx((low + high) / 2, abs=4.5 * width / math.sqrt(12 * n))
    assert values.std().item() == pytest.approx(width / math.sqrt(12), rel=4.5 * math.sqrt(0.2 / n))


def in_physics(env: RLEnv) -> torch.Tensor:
    """Joint positions and velocities in Newton's own state (N, 2 J)."""
    joints, state = len(env.scene["robot"].joint_names), env.physics._state
    rows = [wp.to_torch(array).view(N, -1)[:, -joints:] for array in (state.joint_q, state.joint_qd)]
    return torch.cat(rows, dim=1).clone()


@pytest.mark.parametrize("frontend", ["torch", pytest.param("warp", marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", EXPECTED)
def test_initial_states(task, frontend):
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = N
    env = make_env(cfg, frontend=frontend)
    data = env.scene["robot"].data
    states = []
    for i in range(RESETS):
        env.reset(seed=1 if i == 0 else None)
        states.append(in_physics(env))
        env.step(torch.zeros(env.action_space.shape))  # the next reset starts from elsewhere
    drawn = torch.cat(states)
    position, velocity = drawn.chunk(2, dim=1)
    for values, default, bounds in (
        (position, data.default_joint_pos, EXPECTED[task]["position"]),
        (velocity, data.default_joint_vel, EXPECTED[task]["velocity"]),
    ):
        for joint, (low, high) in enumerate(bounds):
            check_uniform(values[:, joint] - default[0, joint], low, high)
    correlation = torch.corrcoef(drawn.T) - torch.eye(drawn.shape[1])
    assert correlation.abs().max() < 5.0 / math.sqrt(N * RESETS)
    env.close()
