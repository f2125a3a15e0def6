"""Terms on the cart-pole: fixed base, two joints."""

from __future__ import annotations

import math

import pytest
import torch

from lab_core import mdp
from lab_core.envs import ManagerBasedRLEnv
from lab_core.managers import (
    CurriculumManager,
    CurriculumTermCfg,
    EventManager,
    EventTermCfg,
    SceneEntityCfg,
    TermError,
)
from lab_core.testing.cartpole import analytic_cartpole_env_cfg

N = 5
ALL = torch.ones(N, dtype=torch.bool)
SOME = torch.tensor([True, False, True, False, False])


@pytest.fixture
def env() -> ManagerBasedRLEnv:
    return analytic_cartpole_env_cfg(num_envs=N).build()


def entity(env, **names) -> SceneEntityCfg:
    cfg = SceneEntityCfg(**names)
    cfg.resolve(env.scene)
    return cfg


def set_joints(env, position, velocity=(0.0, 0.0)) -> None:
    data = env.scene["robot"].data
    data.joint_pos.copy_(torch.tensor(position))
    data.joint_vel.copy_(torch.tensor(velocity))


def run_event(env, func, mask=ALL, **params) -> None:
    EventManager({"e": EventTermCfg(func=func, params=params)}, env).apply("reset", mask, step_count=0)


# Rewards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("position", "expected"), [(-5.5, 1.5), (-4.0, 0.0), (4.0, 0.0), (5.5, 1.5)])
def test_both_limits_cost(env, position, expected):
    set_joints(env, [position, 9.0])  # the pole has none
    assert mdp.joint_pos_limits(env, entity(env)).tolist() == [expected] * N


def test_reward_of_the_task_has_its_published_value(env):
    set_joints(env, [0.0, 0.1], [0.5, -0.3])
    env.termination_manager.compute()
    reward = env.reward_manager.compute(env.step_dt)
    torch.testing.assert_close(reward, torch.full((N,), 0.0163917), atol=1e-7, rtol=0.0)


def test_hanging_pole_costs(env):
    set_joints(env, [0.0, math.pi])
    env.termination_manager.compute()
    rate = env.reward_manager.compute(env.step_dt) / env.step_dt
    torch.testing.assert_close(rate, torch.full((N,), 1.0 - math.pi**2))


def test_joint_costs(env):
    robot, pole = entity(env), entity(env, joint_names="cart_to_pole")
    data = env.scene["robot"].data
    set_joints(env, [5.0, 2.0], [-3.0, 2.0])
    data.default_joint_pos.copy_(torch.tensor([1.0, -1.0]))
    data.applied_effort.copy_(torch.tensor([3.0, 4.0]))
    data.joint_acc.copy_(torch.tensor([1.0, -2.0]))
    for cost, expected in (
        (mdp.joint_vel_l1(env, robot), 5.0),
        (mdp.joint_vel_l1(env, pole), 2.0),
        (mdp.joint_vel_l2(env, robot), 13.0),
        (mdp.joint_torques_l2(env, robot), 25.0),
        (mdp.joint_acc_l2(env, robot), 5.0),
        (mdp.joint_deviation_l1(env, robot), 7.0),
        (mdp.joint_pos_limits(env, robot), 1.0),  # limits are +-4 m
    ):
        assert cost.tolist() == [expected] * N


@pytest.mark.parametrize(("angle", "expected"), [(0.5, 0.5), (2 * math.pi + 0.5, 0.5), (-0.5 - 4 * math.pi, -0.5)])
def test_target_cost_wraps_the_angle(env, angle, expected):
    set_joints(env, [0.0, angle])
    cost = mdp.joint_pos_target_l2(env, target=0.2, asset_cfg=entity(env, joint_names="cart_to_pole"))
    torch.testing.assert_close(cost, torch.full((N,), (expected - 0.2) ** 2), atol=1e-5, rtol=0.0)


def test_action_costs(env):
    env.action_manager.process_actions(torch.full((N, 1), 2.0))
    assert mdp.action_rate_l2(env).tolist() == [4.0] * N  # the action before the first is zero
    env.action_manager.process_actions(torch.full((N, 1), -1.0))
    assert mdp.action_rate_l2(env).tolist() == [9.0] * N
    assert mdp.action_l2(env).tolist() == [1.0] * N


def test_termination_rewards(env):
    env.termination_manager.terminated.copy_(SOME)
    env.termination_manager.time_outs.copy_(~SOME)
    assert mdp.is_terminated(env).tolist() == SOME.float().tolist()
    assert mdp.is_alive(env).tolist() == (~SOME).float().tolist()
    torch.testing.assert_close(mdp.terminated_penalty(env) * env.step_dt, SOME.float())
    assert mdp.survived(env).tolist() == (~SOME).float().tolist()


def test_success_rate_is_the_share_of_survivors():
    env = analytic_cartpole_env_cfg(num_envs=4, episode_length_s=0.1).build()
    joint_pos = env.scene["robot"].data.joint_pos
    for _ in range(env.max_episode_length):
        if env.episode_length_buf[0] == env.max_episode_length - 1:
            joint_pos[0, 0] = 3.5
        _, _, terminated, truncated, extras = env.step(torch.zeros(4, 1))
    assert terminated.tolist() == [True, False, False, False] and truncated.all()
    assert extras["log"]["Metrics/success_rate"].item() == 1.0  # it also ran out of time
    for _ in range(3):
        env.step(torch.zeros(4, 1))
    joint_pos[0, 0] = 3.5
    *_, extras = env.step(torch.zeros(4, 1))
    assert extras["log"]["Metrics/success_rate"].item() == 0.0


# Observations -----------------------------------------------------------------------------------------------------


def test_joint_observations(env):
    robot, cart = entity(env), entity(env, joint_names="slider_to_cart")
    data = env.scene["robot"].data
    set_joints(env, [2.0, 1.0], [3.0, 4.0])
    data.default_joint_pos.copy_(torch.tensor([0.5, 0.0]))
    data.default_joint_vel.copy_(torch.tensor([0.0, 1.0]))
    data.applied_effort.copy_(torch.tensor([7.0, 8.0]))
    assert mdp.joint_pos(env, robot)[0].tolist() == [2.0, 1.0]
    assert mdp.joint_pos(env, cart)[0].tolist() == [2.0]
    assert mdp.joint_pos_rel(env, robot)[0].tolist() == [1.5, 1.0]
    assert mdp.joint_vel(env, robot)[0].tolist() == [3.0, 4.0]
    assert mdp.joint_vel_rel(env, robot)[0].tolist() == [3.0, 3.0]
    assert mdp.joint_effort(env, robot)[0].tolist() == [7.0, 8.0]
    assert mdp.joint_pos_limit_normalized(env, cart)[0].tolist() == [0.5]  # limits are +-4 m


def test_actions_and_time(env):
    env.action_manager.process_actions(torch.full((N, 1), 2.0))
    assert mdp.last_action(env).tolist() == [[2.0]] * N == mdp.last_action(env, "cart_effort").tolist()
    env.episode_length_buf.fill_(30)
    torch.testing.assert_close(mdp.current_time_s(env), torch.full((N, 1), 0.5))
    torch.testing.assert_close(mdp.remaining_time_s(env), torch.full((N, 1), 4.5))


# Terminations -----------------------------------------------------------------------------------------------------


def test_time_out_after_the_longest_episode(env):
    env.episode_length_buf.copy_(torch.tensor([0, 299, 300, 301, 5]))
    assert mdp.time_out(env).tolist() == [False, False, True, True, False]


def test_joint_limits_terminate(env):
    cart = entity(env, joint_names="slider_to_cart")
    positions = torch.tensor([-3.1, -3.0, 0.0, 3.0, 4.1])
    env.scene["robot"].data.joint_pos[:, 0] = positions
    assert mdp.joint_pos_out_of_manual_limit(env, (-3.0, 3.0), cart).tolist() == [True, False, False, False, True]
    assert mdp.joint_pos_out_of_limit(env, entity(env)).tolist() == [False, False, False, False, True]


# Events -----------------------------------------------------------------------------------------------------------


def test_offset_is_added_to_the_default_and_clamped(env):
    data = env.scene["robot"].data
    data.default_joint_pos.copy_(torch.tensor([3.8, 1.0]))
    data.default_joint_vel.fill_(2.0)
    run_event(env, mdp.reset_joints_by_offset, position_range=(0.1, 0.5), velocity_range=(-1.0, 1.0))
    assert ((data.joint_pos[:, 0] >= 3.9) & (data.joint_pos[:, 0] <= 4.0)).all()
    assert (data.joint_pos[:, 0] == 4.0).any()
    assert ((data.joint_pos[:, 1] >= 1.1) & (data.joint_pos[:, 1] <= 1.5)).all()
    assert ((data.joint_vel >= 1.0) & (data.joint_vel <= 3.0)).all()
    assert len(set(data.joint_vel.flatten().tolist())) == 2 * N


def test_scale_multiplies_the_default(env):
    data = env.scene["robot"].data
    data.default_joint_pos.copy_(torch.tensor([2.0, 0.0]))
    run_event(env, mdp.reset_joints_by_scale, position_range=(0.5, 1.5), velocity_range=(1.0, 1.0))
    assert ((data.joint_pos[:, 0] >= 1.0) & (data.joint_pos[:, 0] <= 3.0)).all()
    assert data.joint_pos[:, 1].tolist() == [0.0] * N and data.joint_vel.tolist() == [[0.0, 0.0]] * N


@pytest.mark.parametrize("func", [mdp.reset_joints_by_offset, mdp.reset_joints_by_scale])
def test_joint_resets_write_selected_rows_and_joints_only(env, func):
    data = env.scene["robot"].data
    data.default_joint_pos.fill_(1.0)
    set_joints(env, [7.0, 7.0], [8.0, 8.0])
    pole = SceneEntityCfg(joint_names="cart_to_pole")
    run_event(env, func, SOME, position_range=(0.5, 0.5), velocity_range=(0.0, 0.0), asset_cfg=pole)
    assert data.joint_pos[:, 0].tolist() == [7.0] * N
    expected = 1.5 if func is mdp.reset_joints_by_offset else 0.5
    assert data.joint_pos[:, 1].tolist() == [expected if row else 7.0 for row in SOME.tolist()]
    assert data.joint_vel[:, 1].tolist() == [0.0 if row else 8.0 for row in SOME.tolist()]


def test_positions_are_drawn_before_velocities_term_by_term(env):
    env.generator.manual_seed(1)
    env.event_manager.apply("reset", step_count=1)
    env.generator.manual_seed(1)
    columns = [torch.rand(N, 1, generator=env.generator) for _ in range(4)]
    data, quarter = env.scene["robot"].data, math.pi / 4
    expected = [2 * columns[0] - 1, columns[1] - 0.5, (2 * columns[2] - 1) * quarter, (2 * columns[3] - 1) * quarter]
    drawn = [data.joint_pos[:, :1], data.joint_vel[:, :1], data.joint_pos[:, 1:], data.joint_vel[:, 1:]]
    for value, column in zip(drawn, expected, strict=True):
        torch.testing.assert_close(value, column)


def test_default_state(env):
    data = env.scene["robot"].data
    set_joints(env, [7.0, 7.0], [8.0, 8.0])
    run_event(env, mdp.reset_scene_to_default, SOME)
    assert data.joint_pos[:, 0].tolist() == [0.0 if row else 7.0 for row in SOME.tolist()]


@pytest.mark.parametrize(("operation", "low", "high"), [("abs", 2.0, 3.0), ("scale", 20.0, 30.0), ("add", 12.0, 13.0)])
def test_gains_start_from_the_defaults_each_time(env, operation, low, high):
    data = env.scene["robot"].data
    cfg = EventTermCfg(
        func=mdp.randomize_actuator_gains,
        params={"damping_distribution_params": (2.0, 3.0), "operation": operation},
    )
    manager = EventManager({"gains": cfg}, env)
    stiffness = data.joint_stiffness.clone()
    for step in range(200):
        manager.apply("reset", SOME, step_count=step)
        damping = data.joint_damping[SOME, 0]
        assert ((damping >= low) & (damping <= high)).all()
    assert data.joint_damping[~SOME].tolist() == [[10.0, 0.0]] * 3
    assert torch.equal(data.joint_stiffness, stiffness)


def test_gains_are_never_negative_and_choices_are_checked(env):
    params = {"damping_distribution_params": (-20.0, -15.0), "operation": "add"}
    run_event(env, mdp.randomize_actuator_gains, **params)
    assert env.scene["robot"].data.joint_damping.tolist() == [[0.0, 0.0]] * N
    with pytest.raises(TermError, match="params.operation: got 'mul'.*'add', 'scale', 'abs'"):
        run_event(env, mdp.randomize_actuator_gains, operation="mul")
    with pytest.raises(TermError, match="params.distribution: got 'uniforms'.*'uniform'"):
        run_event(env, mdp.randomize_actuator_gains, distribution="uniforms")


# Curriculum -------------------------------------------------------------------------------------------------------


def test_reward_weight_changes_at_its_step_also_without_resets(env):
    cfg = CurriculumTermCfg(
        func=mdp.modify_reward_weight, params={"term_name": "alive", "weight": 5.0, "num_steps": 100}
    )
    manager = CurriculumManager({"weight": cfg}, env)
    for step, expected in ((99, 1.0), (100, 5.0), (101, 5.0)):
        env.step_count = step
        manager.compute(~ALL)
        assert env.reward_manager.weights["alive"] == expected
        assert manager.reset(~ALL) == {"Curriculum/weight": expected}


def test_curriculum_log_is_owned(env):
    level = torch.tensor(1.0)
    manager = CurriculumManager({"level": CurriculumTermCfg(func=lambda env, mask: level)}, env)
    manager.compute(ALL)
    logged = manager.reset(ALL)["Curriculum/level"]
    level += 1.0
    assert logged == 1.0


def modification(manager_name="termination", term_name="cart_out_of_bounds", changes=None) -> CurriculumTermCfg:
    params = {
        "manager_name": manager_name,
        "term_name": term_name,
        "changes": changes or {"params": {"bounds": (-1.0, 1.0)}},
        "num_steps": 10,
    }
    return CurriculumTermCfg(func=mdp.modify_term_cfg, params=params)


def test_term_is_modified_once_at_its_step(env):
    manager = CurriculumManager({"bounds": modification()}, env)
    set_joints(env, [2.0, 0.0])
    manager.compute(ALL)
    assert not env.termination_manager.compute().any()
    env.step_count = 10
    manager.compute(ALL)
    assert env.termination_manager.compute().all()
    assert manager.reset(ALL) == {"Curriculum/bounds": 1.0}


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (modification(manager_name="rewards"), "curriculum term 'c': unknown manager 'rewards'. Did you mean 'reward'"),
        (modification(term_name="x"), "curriculum term 'c': unknown termination term 'x'"),
        (
            modification(changes={"weight": 1.0}),
            "curriculum term 'c': unknown field of TerminationTermCfg 'weight'.*func, params, time_out",
        ),
    ],
)
def test_bad_modification_is_found_at_construction(env, cfg, message):
    with pytest.raises(TermError, match=message):
        CurriculumManager({"c": cfg}, env)
