"""The cart-pole tasks on real physics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from lab_core.envs import RLEnv
from lab_core.registry import get_task

TASKS = ("Lab-Cartpole", "Lab-Cartpole-Direct")


def make(task: str, num_envs: int = 16) -> RLEnv:
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = num_envs
    return cfg.build()


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[RLEnv, RLEnv]]:
    envs = (make(TASKS[0]), make(TASKS[1]))
    yield envs
    for env in envs:
        env.close()


def set_state(env: RLEnv, position: list[float], velocity: list[float]) -> None:
    rows = env.num_envs
    env.scene["robot"].write_joint_state(torch.tensor([position] * rows), torch.tensor([velocity] * rows))
    env.physics.forward()


@pytest.mark.parametrize("task", TASKS)
def test_definition(task):
    cfg = get_task(task).make_env_cfg()
    assert (cfg.physics.dt, cfg.decimation, cfg.episode_length_s) == (1 / 120, 2, 5.0)
    assert cfg.scene.num_envs is None
    assert get_task(task).make_env_cfg(play=True).scene.num_envs == 1


def test_observation_layout(pair):
    for env in pair:
        set_state(env, [0.5, 0.3], [-0.2, 0.7])
        assert env._compute_observations(update_history=False)["policy"][0].tolist() == pytest.approx(
            [0.5, 0.3, -0.2, 0.7]
        )
        assert env.max_episode_length == 300


def test_running_out_of_time_is_success_also_beyond_the_bounds(pair):
    for env in pair:
        env.reset()
        env.episode_length_buf.fill_(env.max_episode_length - 1)
        set_state(env, [3.5, 0.0], [0.0, 0.0])
        *_, terminated, truncated, extras = env.step(torch.zeros(16, 1))
        assert terminated.all() and truncated.all()
        assert extras["log"]["Metrics/success_rate"] == 1.0


def test_golden_reward(pair):
    for env in pair:
        set_state(env, [0.0, 0.1], [0.5, -0.3])
        env._compute_dones()
        env._compute_reward()
        assert env.reward_buf.tolist() == pytest.approx([0.0163917] * env.num_envs, abs=1e-7)


def test_both_tasks_are_one_task(pair):
    """Same seed, same actions: the same start states, rewards, ends and success over 400 steps with resets."""
    outputs = []
    for env in pair:
        generator = torch.Generator().manual_seed(1)
        env.reset(seed=11)
        steps = []
        for _ in range(400):
            observations, reward, terminated, truncated, extras = env.step(torch.randn(16, 1, generator=generator))
            steps.append((observations["policy"], reward, terminated, truncated, extras["log"]["Metrics/success_rate"]))
        outputs.append(steps)
    ends = 0
    for ours, theirs in zip(*outputs, strict=True):
        assert torch.equal(ours[0], theirs[0])
        assert torch.allclose(ours[1], theirs[1], atol=1e-6, rtol=0.0)
        assert torch.equal(ours[2], theirs[2])
        assert torch.equal(ours[3], theirs[3])
        assert torch.equal(ours[4], theirs[4])
        ends += int((ours[2] | ours[3]).sum())
    assert ends > 16


def test_action_is_a_force_of_a_hundred_newtons(pair):
    for env in pair:
        env.reset()
        env.step(torch.full((16, 1), 0.5))
        velocity = env.scene["robot"].data.joint_vel[:, 0]
        effort = env.scene["robot"].data.applied_effort
        assert torch.allclose(effort[:, 1], torch.zeros(16))
        # The actuator's damping of 10 N s/m takes its share of the 50 N.
        assert (effort[:, 0] - 50.0 + 10.0 * velocity).abs().max() < 10.0 * 0.5
        env.step(torch.full((16, 1), 50.0))
        assert env.scene["robot"].data.applied_effort[:, 0].max() == 400.0


def test_gymnasium_makes_the_environment():
    import gymnasium

    import lab_tasks  # noqa: F401  (makes the ids known)

    env = gymnasium.make_vec("Lab-Cartpole", num_envs=3)
    observations, _ = env.reset(seed=0)
    assert observations["policy"].shape == (3, 4)
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.SAME_STEP
    observations, reward, terminated, truncated, infos = env.step(torch.as_tensor(env.action_space.sample()))
    assert reward.shape == (3,)
    assert infos["final_obs"]["policy"].shape == (3, 4)
    env.close()
