"""Resets, saved states and pictures of tasks on the Warp front end."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lab_core.envs import RLEnv, make_env
from lab_core.registry import get_task
from lab_core.testing import check_masked_reset
from lab_warp.testing import assert_same_results, rollout, same_bits

N = 5


def make(task: str, num_envs: int = N, frontend: str = "warp", **changes: Any) -> RLEnv:
    cfg = get_task(task).make_env_cfg()
    cfg.scene.num_envs = num_envs
    cfg.episode_length_s = 20 * cfg.decimation * cfg.physics.dt
    for event in cfg.events.values():
        if event is not None and event.mode == "interval":
            event.interval_range_s = (0.25, 0.3)  # within an episode
    for name, value in changes.items():
        setattr(cfg, name, value)
    return make_env(cfg, frontend=frontend)


@pytest.mark.parametrize("task", ["Lab-Cartpole", "Lab-Cartpole-Direct", "Lab-Velocity-Flat-Go2"])
def test_a_reset_touches_no_row_of_other_environments(task):
    """Every tensor of the environment, its managers, the physics, the robot, its actuators and sensors."""
    env = make(task)
    rollout(env, 6)

    def reset(mask: torch.Tensor) -> None:
        env.reset(mask=mask)

    # The mask of worlds with authored state is followed by the reset; it is empty between two steps.
    changed = check_masked_reset({"env": env, "physics": env.physics}, reset, N, keep=("physics.written",))
    assert {"env.episode_length_buf", "env.rng_state", "physics.entities.robot.joint_pos"} <= changed


@pytest.mark.parametrize("task", ["Lab-Cartpole", "Lab-Cartpole-Direct", "Lab-Velocity-Flat-Go2"])
def test_a_saved_state_continues_bit_for_bit_in_a_new_environment(task):
    whole = make(task)
    expected = rollout(whole, 10, seed=1) + rollout(whole, 10, seed=2)
    first = make(task)
    given = rollout(first, 10, seed=1)
    second = make(task, seed=9)
    second.load_state_dict(first.state_dict())
    assert_same_results(given + rollout(second, 10, seed=2), expected)


def test_assigned_ages_reach_the_recorded_step():
    """Learners assign new tensors, also after the step was recorded."""
    env = make("Lab-Cartpole-Direct")
    env.step(torch.zeros(N, 1))
    env.episode_length_buf = torch.tensor([19, 18, 0, 0, 19])
    truncated = [env.step(torch.zeros(N, 1))[3].tolist() for _ in range(2)]
    assert truncated == [[True, False, False, False, True], [False, True, False, False, False]]
    assert env.episode_length_buf.tolist() == [1, 0, 2, 2, 1]


def test_a_seed_repeats_the_rollout_of_a_velocity_task():
    """That of direct tasks: test_tasks_direct_twins.py."""
    env = make("Lab-Velocity-Flat-Go2")

    def run(seed: int) -> torch.Tensor:
        env.reset(seed=seed)
        return torch.stack([result["obs.policy"] for result in rollout(env, 25)])

    first = run(1)
    assert same_bits(run(1), first)
    assert not torch.equal(run(2), first)


def test_a_second_velocity_environment_reads_its_own_commands():
    """Of other size and seed, stepped in turn; the first goes on as if it were alone."""
    task = "Lab-Velocity-Flat-Go2"
    expected = rollout(make(task, seed=7), 6)
    first, second = make(task, seed=7), make(task, num_envs=3, seed=8)
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        action = torch.randn(first.action_space.shape, generator=generator)
        obs, *_ = first.step(action)
        assert same_bits(obs["policy"], expected[step]["obs.policy"])
        obs, *_ = second.step(torch.zeros(second.action_space.shape))
        manager: Any = second
        command = manager.command_manager.get_command("base_velocity")
        columns = manager.observation_manager._group_buffers["policy"].columns["velocity_commands"]
        assert torch.equal(obs["policy"][:, columns], command)


def test_contacts_are_those_of_the_torch_front_end(monkeypatch):
    """The physics owns the decimation: one call per step. Forces of every substep, air times and what is made of them,
    from the same state and the same targets."""
    torch_env, warp_env = (make("Lab-Velocity-Flat-Go2", frontend=name) for name in ("torch", "warp"))
    for env in (torch_env, warp_env):
        data = env.scene["robot"].data
        data.root_link_pose_w[:, 2] += torch.linspace(-0.05, 0.1, N)
    warp_env.scene["robot"].data.root_link_pose_w.copy_(torch_env.scene["robot"].data.root_link_pose_w)
    warp_env.scene["robot"].data.joint_pos.copy_(torch_env.scene["robot"].data.joint_pos)
    for name in ("joint_vel", "root_com_vel_w"):
        for env in (torch_env, warp_env):
            getattr(env.scene["robot"].data, name).zero_()
    for env in (torch_env, warp_env):
        env.physics.written.fill_(True)
        env.physics.forward()
    calls = []
    step = torch_env.physics.step
    monkeypatch.setattr(torch_env.physics, "step", lambda number: (calls.append(number), step(number)))
    for _ in range(12):
        for env in (torch_env, warp_env):
            env.step(torch.zeros(env.action_space.shape))
        for name, value in vars(torch_env.scene.sensor("contact_forces")).items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(getattr(warp_env.scene.sensor("contact_forces"), name), value), name
    assert calls == [torch_env.cfg.decimation] * 12
    contacts: Any = warp_env.scene.sensor("contact_forces")
    assert contacts.net_forces_w_history.norm(dim=-1).max() > 10.0
    assert contacts.current_air_time.max() > 0.0


def test_pictures_after_each_step_change_nothing():
    """A video on this front end is what ``render`` returns after each step; a clip has as many frames as steps."""
    task = "Lab-Cartpole"
    cfg = get_task(task).make_env_cfg()
    scene = cfg.scene
    scene.num_envs = 2
    scene.camera.width, scene.camera.height = 160, 120
    filmed, plain = (make_env(cfg, frontend="warp") for _ in range(2))
    frames, results = [], []
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        obs, *_ = filmed.step(3.0 * torch.randn(2, 1, generator=generator))
        frames.append(filmed.render()[0])
        results.append(obs["policy"])
    assert all(same_bits(a, b["obs.policy"]) for a, b in zip(results, rollout(plain, 10, scale=3.0), strict=True))
    assert {frame.shape for frame in frames} == {(120, 160, 3)}
    assert (frames[0] != frames[-1]).any()
