"""The ant tasks on real physics."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from lab_core.envs import RLEnv
from lab_core.math import quat_from_euler_xyz
from lab_core.registry import get_task
from lab_core.testing import check_masked_reset
from lab_tasks.ant.mdp import approach

TASKS = ("Lab-Ant", "Lab-Ant-Direct")
N = 4


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[RLEnv, RLEnv]]:
    envs = []
    for task in TASKS:
        cfg = get_task(task).make_env_cfg()
        cfg.scene.num_envs = N
        cfg.physics.solver.strict_capacity = True
        envs.append(cfg.build())
    yield envs[0], envs[1]
    for env in envs:
        env.close()


def put(env: RLEnv, pose: list[float] | None = None, joint_pos=None, joint_vel: float = 0.0, mask=None) -> None:
    """Puts worlds to the default state with some changes, with velocity 0 and without an action."""
    robot = env.scene["robot"]
    data = robot.data
    env.physics.write_default_state(torch.ones_like(env.physics.written) if mask is None else mask)
    if pose is not None:
        robot.write_root_link_pose(torch.tensor([pose]).repeat(N, 1), mask)
    position = data.default_joint_pos if joint_pos is None else torch.tensor([joint_pos]).repeat(N, 1)
    robot.write_joint_state(position, torch.full_like(position, joint_vel), mask)
    env.physics.forward()


def act(env: RLEnv, action: float) -> None:
    """Makes ``action`` the last action without a step."""
    env._take_actions(torch.full((N, 8), action))
    env._process_actions()


def start_here(env: RLEnv) -> None:
    """Begins an episode in the present state."""
    env._reset_managers(env._all)


def reward_here(env: RLEnv) -> torch.Tensor:
    env._compute_dones()
    env._compute_reward()
    return env.reward_buf


def observe(env: RLEnv) -> torch.Tensor:
    return env._compute_observations(update_history=False)["policy"]


@pytest.mark.parametrize("task", TASKS)
def test_definition(task):
    cfg = get_task(task).make_env_cfg()
    assert (cfg.physics.dt, cfg.decimation, cfg.episode_length_s) == (1 / 120, 2, 16.0)
    assert (cfg.physics.solver.njmax, cfg.physics.solver.nconmax) == (45, 12)
    assert cfg.scene.env_spacing == 5.0
    assert get_task(task).make_env_cfg(play=True).scene.num_envs == 4
    agent = get_task(task).make_agent_cfg()
    assert (agent.num_steps_per_env, agent.max_iterations) == (32, 1000)
    assert tuple(agent.actor_hidden_dims) == tuple(agent.critic_hidden_dims) == (400, 200, 100)
    assert (agent.entropy_coef, agent.learning_rate) == (0.0, 5e-4)


def test_sizes(pair):
    for env in pair:
        assert env.max_episode_length == 960
        assert env.single_action_space.shape == (8,)
        assert env.single_observation_space["policy"].shape == (60,)
    assert pair[0].observation_manager.group_obs_term_dim["policy"] == {
        "base_height": (1,),
        "base_lin_vel": (3,),
        "base_ang_vel": (3,),
        "base_yaw_roll": (2,),
        "base_angle_to_target": (1,),
        "base_up_proj": (1,),
        "base_heading_proj": (1,),
        "joint_pos_norm": (8,),
        "joint_vel_rel": (8,),
        "feet_body_forces": (24,),
        "actions": (8,),
    }


def test_observation_layout(pair):
    yaw, roll = 0.4, 0.2
    quat = quat_from_euler_xyz(torch.tensor(roll), torch.tensor(0.0), torch.tensor(yaw)).tolist()
    joints = [0.1, 0.7, -0.1, -0.7, 0.2, -0.8, -0.2, 0.8]
    for env in pair:
        put(env, [2.0, 3.0, 0.7, *quat], joints, joint_vel=0.5)
        data = env.scene["robot"].data
        data.root_com_lin_vel_b.copy_(torch.tensor([1.0, 2.0, 3.0]))
        data.root_ang_vel_b.copy_(torch.tensor([4.0, 5.0, 6.0]))
        env.scene.sensor("feet_wrench").wrench_b.copy_(torch.arange(24.0).reshape(4, 6))
        act(env, 1.5)
        row = observe(env)[1].tolist()
        direction = math.atan2(-3.0, 998.0)
        assert row[0] == pytest.approx(0.7)
        assert row[1:7] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        assert row[7:9] == pytest.approx([yaw, roll], abs=1e-6)
        assert row[9] == pytest.approx(direction - yaw, abs=1e-6)
        assert row[10] == pytest.approx(math.cos(roll), abs=1e-6)
        assert row[11] == pytest.approx(math.cos(direction - yaw), abs=1e-6)
        # Legs turn by +-40 degrees, feet from 30 to 100 degrees.
        leg, middle, half = math.radians(40), math.radians(65), math.radians(35)
        expected = [q / leg if i % 2 == 0 else (q - math.copysign(middle, q)) / half for i, q in enumerate(joints)]
        assert row[12:20] == pytest.approx(expected, abs=1e-5)
        assert row[20:28] == pytest.approx([0.1] * 8)
        assert row[28:52] == pytest.approx([0.1 * i for i in range(24)])
        assert row[52:60] == [1.5] * 8


def test_feet_are_at_minus_four_sevenths_in_the_default_pose(pair):
    for env in pair:
        put(env)
        assert observe(env)[0, 13:20:2].abs().tolist() == pytest.approx([4 / 7] * 4, abs=1e-5)
        assert observe(env)[0, 13].item() < 0.0


def test_golden_reward_at_rest(pair):
    for env in pair:
        put(env)
        start_here(env)
        put(env)
        assert reward_here(env).tolist() == pytest.approx([0.0183333] * N, abs=1e-7)


def test_costs_of_effort_see_the_unclipped_action(pair):
    for env in pair:
        put(env)
        start_here(env)
        put(env, joint_vel=-0.5)
        act(env, 2.0)
        cost = 0.005 * 8 * 2.0**2 + 0.05 * 8 * 2.0 * 0.5
        assert reward_here(env).tolist() == pytest.approx([(1.1 - cost) / 60] * N, abs=1e-6)


def test_progress_is_metres_towards_the_target(pair):
    """Centimetres are resolved, though the target is a kilometre away."""
    for env in pair:
        put(env, [0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
        start_here(env)
        put(env, [0.01234, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
        assert reward_here(env).tolist() == pytest.approx([0.01234 + 1.1 / 60] * N, abs=1e-7)
        put(env, [0.01234, 0.2, 0.5, 0.0, 0.0, 0.0, 1.0])
        sideways = 1000.0 - 0.01234 - math.hypot(1000.0 - 0.01234, 0.2)
        assert reward_here(env).tolist() == pytest.approx([sideways + 1.1 / 60] * N, abs=1e-6)


def test_approach_is_the_difference_of_the_distances():
    moved, to_target = torch.tensor([[3.0, 3.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    assert approach(moved, to_target).tolist() == pytest.approx([4.0, 0.0])


@pytest.mark.parametrize(
    ("yaw", "roll", "rate"),
    [
        (0.0, 0.36, 0.5 + 0.1 + 0.5),  # cos 0.36 = 0.936
        (0.0, 0.39, 0.5 + 0.5),  # cos 0.39 = 0.925
        (0.6, 0.0, 0.5 + 0.1 + 0.5),  # cos 0.6 = 0.825
        (1.2, 0.0, 0.5 + 0.1 + 0.5 * math.cos(1.2) / 0.8),
        (math.pi, 0.0, 0.5 + 0.1 - 0.5 / 0.8),
    ],
)
def test_bonus_for_posture_and_heading(pair, yaw, roll, rate):
    quat = quat_from_euler_xyz(torch.tensor(roll), torch.tensor(0.0), torch.tensor(yaw)).tolist()
    for env in pair:
        put(env, [0.0, 0.0, 0.6, *quat])
        start_here(env)
        put(env, [0.0, 0.0, 0.6, *quat])
        assert reward_here(env).tolist() == pytest.approx([rate / 60] * N, abs=1e-6)


def test_joint_limits_cost(pair):
    joints = [math.radians(40), 0.785398, 0.0, -0.785398, 0.0, math.radians(-30), 0.0, 0.785398]
    for env in pair:
        put(env, joint_pos=joints)
        start_here(env)
        put(env, joint_pos=joints)
        assert reward_here(env).tolist() == pytest.approx([(1.1 - 0.1 * 2.0) / 60] * N, abs=1e-5)


def test_a_fall_ends_the_episode_and_costs_two_points_once(pair):
    low = torch.tensor([True, False, False, True])
    for env in pair:
        put(env)
        put(env, [0.0, 0.0, 0.309, 0.0, 0.0, 0.0, 1.0], mask=low)
        start_here(env)
        put(env)
        put(env, [0.0, 0.0, 0.309, 0.0, 0.0, 0.0, 1.0], mask=low)
        reward = reward_here(env)
        assert env.reset_terminated.tolist() == low.tolist()
        assert not env.reset_time_outs.any()
        assert reward[low].tolist() == pytest.approx([0.6 / 60 - 2.0] * 2, abs=1e-6)
        assert reward[~low].tolist() == pytest.approx([1.1 / 60] * 2, abs=1e-6)


def test_a_fall_in_the_last_step_is_both_ends(pair):
    for env in pair:
        put(env, [0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0])
        env.episode_length_buf.fill_(960)
        reward_here(env)
        assert env.reset_terminated.all()
        assert env.reset_time_outs.all()
        assert env._reset_managers(env._all)["Metrics/success_rate"] == 1.0


def test_action_is_an_effort_of_at_most_seven_and_a_half(pair):
    for env in pair:
        env.reset()
        env.step(torch.tensor([[0.5] * 4 + [-9.0] * 4] * N))
        effort, velocity = env.scene["robot"].data.applied_effort, env.scene["robot"].data.joint_vel
        target = env.scene["robot"].data.joint_effort_target
        assert target[0].tolist() == [3.75] * 4 + [-7.5] * 4
        # The actuator's damping of 0.1 N m s takes its share.
        assert ((effort - target).abs() <= 0.1 * velocity.abs().max() + 0.2).all()
        assert observe(env)[0, 52:].tolist() == [0.5] * 4 + [-9.0] * 4


def test_resets_start_near_the_default_pose(pair):
    for env in pair:
        env.reset(seed=5)
        data = env.scene["robot"].data
        offset = data.joint_pos - data.default_joint_pos
        assert offset.abs().max() <= 0.2
        assert offset.std() > 0.05
        assert data.joint_vel.abs().max() <= 0.1
        assert torch.equal(data.root_link_pose_w, data.default_root_pose)
        assert not data.root_com_vel_w.any()


def test_a_state_from_outside_is_no_progress(pair):
    some = torch.tensor([True, False, True, False])
    rewards = []
    for env in pair:
        env.reset(seed=3)
        state = env.scene.get_state()
        state["articulation"]["robot"]["root_pose"][:, :2] += torch.tensor([30.0, -4.0])
        env.reset_to(state, mask=some)
        assert (env.scene["robot"].data.root_link_pose_w[:, 0] > 29.0).tolist() == some.tolist()
        rewards.append(env.step(torch.zeros(N, 8))[1])
        assert (rewards[-1] - 1.1 / 60).abs().max() < 0.1
    torch.testing.assert_close(*rewards, atol=1e-6, rtol=0.0)


def test_the_way_back_of_a_broken_world_is_no_progress(pair):
    """Physics puts a world that goes non-finite to its default state inside the step, here 30 m back."""
    for env in pair:
        env.reset(seed=3)
        put(env, [30.0, 0.0, 0.7, 0.0, 0.0, 0.0, 1.0])
        start_here(env)
        env.scene["robot"].write_joint_state(*(torch.full((N, 8), value) for value in (0.0, math.nan)), mask=[2])
        _, reward, terminated, _, _ = env.step(torch.zeros(N, 8))
        assert terminated.tolist() == [False, False, True, False]
        assert reward[2].item() == pytest.approx(0.6 / 60 - 2.0, abs=1e-3)
        assert (reward[[0, 1, 3]] - 1.1 / 60).abs().max() < 0.1
        assert env.health().non_finite_envs == 1


def test_progress_resets_only_its_rows(pair):
    term = pair[0].reward_manager._class_terms["progress"]
    assert "_position" in check_masked_reset(term, term.reset, N)


def test_both_tasks_are_one_task_in_a_short_run(pair):
    _compare(pair, steps=40)


@pytest.mark.slow
def test_both_tasks_are_one_task_over_a_whole_episode(pair):
    assert _compare(pair, steps=970) > N


def _compare(pair, steps: int) -> int:
    """Same seed and actions, some ants thrown on their backs: the same observations, rewards and ends. Returns
    the number of ends."""
    outputs = []
    for env in pair:
        generator = torch.Generator().manual_seed(1)
        env.reset(seed=11)
        rows = []
        for step in range(steps):
            if step in (20, 500):
                put(env, [1.0, 0.0, 0.26, 1.0, 0.0, 0.0, 0.0], mask=torch.arange(N) == step % 3)
            rows.append(env.step(1.5 * torch.randn(N, 8, generator=generator)))
        assert env.health().ok
        outputs.append(rows)
    ends = 0
    for ours, theirs in zip(*outputs, strict=True):
        torch.testing.assert_close(ours[0]["policy"], theirs[0]["policy"], atol=2e-6, rtol=1e-6)
        torch.testing.assert_close(ours[1], theirs[1], atol=1e-6, rtol=0.0)
        assert torch.equal(ours[2], theirs[2])
        assert torch.equal(ours[3], theirs[3])
        ends += int((ours[2] | ours[3]).sum())
    assert outputs[0][20][2].any()
    log, direct_log = (rows[-1][4]["log"] for rows in outputs)
    assert log["Metrics/success_rate"] == direct_log["Metrics/success_rate"]
    return ends
