"""The velocity tasks on real physics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv, ManagerBasedRLEnvCfg
from lab_core.managers import SceneEntityCfg
from lab_core.registry import get_task
from lab_core.scene import IdealPDActuatorCfg
from lab_tasks.velocity import anymal_c, go2

N = 4
HEIGHT = {"Go2": 0.4, "AnymalC": 0.6}
FEET = {"Go2": ("FL_foot", "FR_foot", "RL_foot", "RR_foot"), "AnymalC": ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")}
JOINTS = {"Go2": go2.JOINTS, "AnymalC": anymal_c.JOINTS}


def build(task: str, change: Callable[[ManagerBasedRLEnvCfg], None] | None = None) -> ManagerBasedRLEnv:
    cfg = get_task(task).make_env_cfg()
    if change is not None:
        change(cfg)
    cfg.scene.num_envs = N
    cfg.physics.solver.strict_capacity = True
    cfg.observations["policy"].enable_corruption = False
    cfg.commands["base_velocity"].rel_standing_envs = 0.0
    return cfg.build()


@pytest.fixture(scope="module", params=["Go2", "AnymalC"])
def rough(request) -> Iterator[tuple[str, ManagerBasedRLEnv]]:
    """On stairs of three levels, whose tops reach beyond the scan; everybody begins at level 0."""

    def make_small(cfg: ManagerBasedRLEnvCfg) -> None:
        terrain = cfg.scene.terrain
        terrain.num_rows, terrain.num_cols, terrain.max_init_level = 3, 2, 0
        terrain.sub_terrains = {"pyramid_stairs": terrain.sub_terrains["pyramid_stairs"]}

    env = build(f"Lab-Velocity-Rough-{request.param}", make_small)
    yield request.param, env
    env.close()


@pytest.fixture(scope="module", params=["Go2", "AnymalC"])
def flat(request) -> Iterator[tuple[str, ManagerBasedRLEnv]]:
    env = build(f"Lab-Velocity-Flat-{request.param}")
    yield request.param, env
    env.close()


def stand_still(env: ManagerBasedRLEnv, robot: str, command: tuple[float, float, float] = (0.5, 0.0, 0.0)) -> None:
    """All robots at rest in the default pose, without action, effort or contact."""
    entity = env.scene["robot"]
    env.physics.write_default_state(torch.ones_like(env.physics.written))
    pose = entity.data.default_root_pose.clone()
    pose[:, :3] += env.scene.env_origins
    pose[:, 2] = env.scene.env_origins[:, 2] + HEIGHT[robot]
    entity.write_root_link_pose(pose)
    env.physics.forward()
    env.physics.reset(env._all)
    env.action_manager.reset(env._all)
    env.command_manager.get_command("base_velocity").copy_(torch.tensor(command))
    env.episode_length_buf.zero_()


def reward_here(env: ManagerBasedRLEnv) -> torch.Tensor:
    env._compute_dones()
    env._compute_reward()
    return env.reward_buf


def term(env: ManagerBasedRLEnv, name: str) -> torch.Tensor:
    """A weighted reward term of the last :func:`reward_here`, per second (N,)."""
    return env.reward_manager.step_reward[:, env.reward_manager.term_names.index(name)]


def test_joint_order_is_that_of_the_model(flat):
    robot, env = flat
    assert env.scene["robot"].joint_names == JOINTS[robot]
    assert env.action_manager.get_term("joint_pos").joint_names == list(JOINTS[robot])


def test_sizes(flat):
    _, env = flat
    assert env.max_episode_length == 1000
    assert env.step_dt == pytest.approx(0.02)
    assert env.single_action_space.shape == (12,)
    assert env.single_observation_space["policy"].shape == (48,)


def test_observation_layout(flat):
    robot, env = flat
    stand_still(env, robot, command=(0.7, -0.6, 0.5))
    data = env.scene["robot"].data
    data.root_com_lin_vel_b.copy_(torch.tensor([1.0, 2.0, 3.0]))
    data.root_ang_vel_b.copy_(torch.tensor([4.0, 5.0, 6.0]))
    data.projected_gravity_b.copy_(torch.tensor([0.6, 0.0, -0.8]))
    data.joint_pos.copy_(data.default_joint_pos + 0.01 * torch.arange(12))
    data.joint_vel.copy_(torch.arange(12.0) + 20.0)
    env._take_actions(torch.arange(12.0).repeat(N, 1) - 5.0)
    env._process_actions()
    row = env._compute_observations(update_history=False)["policy"][2].tolist()
    assert row[:12] == pytest.approx([1, 2, 3, 4, 5, 6, 0.6, 0.0, -0.8, 0.7, -0.6, 0.5])
    assert row[12:24] == pytest.approx([0.01 * i for i in range(12)], abs=1e-6)
    assert row[24:36] == pytest.approx([20.0 + i for i in range(12)])
    assert row[36:48] == pytest.approx([i - 5.0 for i in range(12)])


def test_golden_reward_at_rest(flat):
    """Asked for 0.5 m/s, a robot that stands still keeps exp(-1) of the reward for tracking the velocity."""
    robot, env = flat
    stand_still(env, robot)
    scale = {"Go2": 1.5, "AnymalC": 1.0}[robot]
    assert reward_here(env).tolist() == pytest.approx([scale * (math.exp(-1.0) + 0.5) * 0.02] * N, abs=2e-7)
    if robot == "Go2":
        assert env.reward_buf[0].item() == pytest.approx(0.0260364, abs=2e-7)
    assert not env.reset_buf.any()


def test_standing_earns_no_gait_bonus(flat):
    robot, env = flat
    for command in ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0)):
        stand_still(env, robot, command)
        reward_here(env)
        assert not term(env, "feet_air_time").any()


def test_every_cost_by_its_formula(flat):
    robot, env = flat
    stand_still(env, robot)
    data = env.scene["robot"].data
    data.root_com_lin_vel_b.copy_(torch.tensor([0.5, 0.0, 0.3]))
    data.root_ang_vel_b.copy_(torch.tensor([0.4, -0.2, 0.5]))
    data.projected_gravity_b.copy_(torch.tensor([0.1, 0.2, -0.97]))
    data.applied_effort.fill_(3.0)
    data.joint_acc.fill_(20.0)
    env._take_actions(torch.full((N, 12), 0.5))
    env._process_actions()
    total = reward_here(env) / 0.02
    weights = env.reward_manager.weights
    expected = {
        "track_lin_vel_xy_exp": 1.0,
        "track_ang_vel_z_exp": math.exp(-1.0),
        "lin_vel_z_l2": 0.09,
        "ang_vel_xy_l2": 0.2,
        "dof_torques_l2": 12 * 9.0,
        "dof_acc_l2": 12 * 400.0,
        "action_rate_l2": 12 * 0.25,
        "flat_orientation_l2": 0.05,
    }
    for name, value in expected.items():
        assert term(env, name).tolist() == pytest.approx([weights[name] * value] * N, rel=1e-5)
    assert total.tolist() == pytest.approx([sum(weights[name] * v for name, v in expected.items())] * N, rel=1e-5)


def test_height_cost_of_the_go2(flat):
    robot, env = flat
    if robot != "Go2":
        assert "base_height_l2" not in env.reward_manager.term_names
        return
    stand_still(env, robot)
    env.scene["robot"].data.root_link_pose_w[:, 2] = 0.32
    reward_here(env)
    assert term(env, "base_height_l2").tolist() == pytest.approx([-0.192] * N, rel=1e-4)


def test_landing_is_paid_by_the_flight(flat):
    robot, env = flat
    stand_still(env, robot)
    contact = env.scene.sensor("contact_forces")
    feet = contact.find_bodies(FEET[robot])
    contact.contact_steps[0, feet[0]], contact.last_air_time[0, feet[0]] = 1, 0.7
    contact.contact_steps[1, feet], contact.last_air_time[1, feet] = 4, 0.0  # the drop at the start
    contact.contact_steps[2, feet[0]], contact.last_air_time[2, feet[0]] = 5, 0.7  # landed before
    reward_here(env)
    weight = env.reward_manager.weights["feet_air_time"]
    assert term(env, "feet_air_time").tolist() == pytest.approx([0.2 * weight, -2.0 * weight, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("substep", range(4))
def test_a_touch_of_the_base_in_any_substep_ends_the_episode(flat, substep):
    robot, env = flat
    stand_still(env, robot)
    contact = env.scene.sensor("contact_forces")
    (base,), feet = contact.find_bodies("base"), contact.find_bodies(FEET[robot])
    contact.net_forces_w_history[1, substep, base] = torch.tensor([0.0, 0.0, 1.01])
    contact.net_forces_w_history[2, substep, base] = torch.tensor([0.0, 0.0, 0.99])
    contact.net_forces_w_history[3, substep, feet[0]] = 100.0
    env._compute_dones()
    assert env.reset_terminated.tolist() == [False, True, False, False]
    assert not env.reset_time_outs.any()


def test_thigh_contacts_cost_only_the_anymal(flat):
    robot, env = flat
    stand_still(env, robot)
    contact = env.scene.sensor("contact_forces")
    thighs = contact.find_bodies(".*_(thigh|THIGH)")
    before = reward_here(env).clone()
    contact.net_forces_w_history[0, 2, thighs[:2], 2] = 1.5
    cost = (reward_here(env) - before) / 0.02
    assert cost.tolist() == pytest.approx([-2.0 if robot == "AnymalC" else 0.0, 0.0, 0.0, 0.0], abs=1e-5)


def test_action_moves_the_targets_about_the_default(flat):
    robot, env = flat
    stand_still(env, robot)
    env._take_actions(torch.arange(12.0).repeat(N, 1))
    env._process_actions()
    env._apply_actions()
    data = env.scene["robot"].data
    scale = {"Go2": 0.25, "AnymalC": 0.5}[robot]
    torch.testing.assert_close(data.joint_pos_target - data.default_joint_pos, scale * torch.arange(12.0).repeat(N, 1))


def test_success_is_following_the_command(flat):
    robot, env = flat
    env.reset()
    metrics = env.command_manager.get_term("base_velocity").metrics
    metrics["error_vel_xy"].copy_(torch.tensor([0.4, 0.6, 0.4, 0.4]))
    metrics["error_vel_yaw"].copy_(torch.tensor([0.3, 0.3, 0.5, 0.3]))
    env.metrics_manager.compute()
    log = env.metrics_manager.reset(torch.tensor([True, True, True, False]))
    assert float(log["Metrics/success_rate"]) == pytest.approx(1 / 3)


def test_starts_differ_and_stay_in_range(flat):
    robot, env = flat
    env.reset(seed=3)
    data = env.scene["robot"].data
    offset = data.root_link_pose_w[:, :3] - env.scene.env_origins - data.default_root_pose[:, :3]
    assert offset[:, :2].abs().max() <= 0.5
    assert offset[:, 2].abs().max() < 1e-6
    assert data.root_com_vel_w.abs().max() <= 0.5
    assert (data.root_com_vel_w.std(dim=0) > 0.05).all()
    factor = data.joint_pos / data.default_joint_pos
    moving = data.default_joint_pos != 0.0
    assert factor[moving].min() >= 0.49
    assert factor[moving].max() <= 1.51
    assert not data.joint_vel.any()


@pytest.mark.parametrize("joints_first", [True, False])
def test_reset_events_keep_what_those_before_them_wrote(flat, joints_first):
    """None of them reads poses of bodies, which are those of the old episode until all events are done."""
    _, env = flat
    env.reset(seed=0)
    data, rows = env.scene["robot"].data, torch.tensor([True, False, True, False])
    old = {name: getattr(data, name).clone() for name in ("root_link_pose_w", "root_com_vel_w", "joint_pos")}

    joints = SceneEntityCfg()
    joints.resolve(env.scene)

    def reset_joints() -> None:
        mdp.reset_joints_by_scale(env, rows, (1.25, 1.25), (0.0, 0.0), joints)

    if joints_first:
        reset_joints()
    mdp.reset_root_state_uniform(env, rows, {"x": (3.0, 3.0), "yaw": (1.0, 1.0)}, {"x": (0.5, 0.5)})
    mdp.push_by_setting_velocity(env, rows, {"y": (0.25, 0.25)})
    if not joints_first:
        reset_joints()
    env.physics.forward()
    expected = (data.default_root_pose[:, :3] + env.scene.env_origins + torch.tensor([3.0, 0.0, 0.0]))[rows]
    torch.testing.assert_close(data.root_link_pose_w[rows, :3], expected)
    torch.testing.assert_close(data.body_link_pose_w[rows, 0, :3], expected)
    assert data.root_link_pose_w[rows, 6].tolist() == pytest.approx([math.cos(0.5)] * 2)
    assert data.root_com_vel_w[rows].tolist() == [[0.5, 0.25, 0.0, 0.0, 0.0, 0.0]] * 2
    torch.testing.assert_close(data.joint_pos[rows], 1.25 * data.default_joint_pos[rows])
    for name, value in old.items():
        assert torch.equal(getattr(data, name)[~rows], value[~rows]), name


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_motor_gives_its_limit_and_no_more(flat, sign):
    """At rest, asked for far more, by an effort and, where the drive is no network, by a position."""
    robot, env = flat
    data = env.scene["robot"].data
    limit = torch.minimum(data.joint_effort_limits, data.joint_saturation_efforts)
    assert limit.isfinite().all() and limit.min() > 10.0
    drives = env.scene["robot"].cfg.actuators.values()
    by_position = all(isinstance(drive, IdealPDActuatorCfg) for drive in drives)
    for target in (data.joint_effort_target, data.joint_pos_target)[: 1 + by_position]:
        stand_still(env, robot)
        target.add_(1000.0 * sign)
        env.physics.step(1)
        torch.testing.assert_close(data.applied_effort, sign * limit)
    stand_still(env, robot)


def test_random_actions_stay_within_the_buffers(flat):
    robot, env = flat
    generator = torch.Generator().manual_seed(0)
    env.reset(seed=0)
    for _ in range(20):
        observations, reward, *_ = env.step(torch.randn(N, 12, generator=generator))
        assert observations["policy"].isfinite().all()
        assert reward.isfinite().all()
    assert env.health().ok


# Rough ground ---------------------------------------------------------------------------------------------------------


def test_nobody_changes_level_before_the_first_step(rough):
    _, env = rough
    assert env.scene.terrain.levels.tolist() == [0] * N
    env.reset()
    assert env.scene.terrain.levels.tolist() == [0] * N
    assert env.extras["log"]["Curriculum/terrain_levels"] == 0.0


def test_policy_sees_the_ground(rough):
    robot, env = rough
    assert env.single_observation_space["policy"].shape == (235,)
    stand_still(env, robot)
    scan = env._compute_observations(update_history=False)["policy"][:, 48:]
    torch.testing.assert_close(scan, torch.full((N, 187), HEIGHT[robot] - 0.5), atol=1e-4, rtol=0.0)


def test_golden_reward_on_top_of_the_stairs(rough):
    """The height of the Go2 counts from the ground below it."""
    robot, env = rough
    stand_still(env, robot)
    assert env.scene.env_origins[0, 2] > 0.1
    scale = {"Go2": 1.5, "AnymalC": 1.0}[robot]
    assert reward_here(env).tolist() == pytest.approx([scale * (math.exp(-1.0) + 0.5) * 0.02] * N, abs=1e-6)


def test_who_reaches_the_edge_runs_out_of_time(rough):
    """Whether it still stands on the border or has fallen beside it, where no ray of the scanner hits anything."""
    robot, env = rough
    stand_still(env, robot)
    terrain, entity = env.physics.terrain, env.scene["robot"]
    pose = entity.data.root_link_pose_w.clone()
    edge = 0.5 * terrain.size[0]
    pose[:3, 0] = torch.tensor([edge - 3.1, edge - 2.9, edge + 20.0])
    pose[2, 2] = -300.0
    entity.write_root_link_pose(pose)
    env.physics.forward()
    env.physics.step(1)
    reward = reward_here(env)
    assert env.reset_time_outs.tolist() == [False, True, True, False]
    assert not env.reset_terminated[2]
    assert reward[2].abs() < 1.0


def test_levels_follow_the_way_walked(rough):
    robot, env = rough
    stand_still(env, robot, command=(0.5, 0.0, 0.0))
    env.scene.terrain.levels.copy_(torch.tensor([0, 1, 1, 1]))
    env.episode_length_buf.copy_(torch.tensor([1000, 1000, 500, 0]))
    way = torch.tensor([4.1, 3.9, -4.1, 4.1])
    command = env.command_manager.get_term("base_velocity")
    command.start_pos_w.copy_(env.scene["robot"].data.root_link_pose_w[:, :2])
    command.asked_displacement_w.copy_(torch.tensor([[8.0, 0.0], [8.0, 0.0], [5.0, 0.0], [8.0, 0.0]]))
    env.scene["robot"].data.root_link_pose_w[:, 0] += way
    env._announce_reset(env._all)
    env._reset_envs()
    # Level 1 is lost for less than half of what is asked for; who has not made a step stays.
    assert env.scene.terrain.levels.tolist() == [1, 0, 2, 1]
    position = env.scene["robot"].data.root_link_pose_w[:, :3] - env.scene.env_origins
    assert position[:3, :2].abs().max() <= 0.5
    assert env.scene.env_origins[2, 0] - env.scene.env_origins[1, 0] == pytest.approx(16.0)


def test_random_actions_on_stairs_stay_within_the_buffers(rough):
    _, env = rough
    generator = torch.Generator().manual_seed(0)
    env.reset(seed=0)
    for _ in range(20):
        observations, reward, *_ = env.step(torch.randn(N, 12, generator=generator))
        assert observations["policy"].isfinite().all()
        assert reward.isfinite().all()
    assert env.health().ok
