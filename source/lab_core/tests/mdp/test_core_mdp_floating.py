"""Terms of robots with a floating base, on entity data without physics."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.errors import LabError
from lab_core.managers import CommandManager, EventManager, EventTermCfg, SceneEntityCfg, TermError
from lab_core.math import quat_apply, quat_from_euler_xyz
from lab_core.scene import Articulation, ArticulationCfg, ArticulationData
from lab_core.testing import check_masked_reset

N = 5
ALL = torch.ones(N, dtype=torch.bool)
SOME = torch.tensor([True, False, True, False, False])
ROBOT = SceneEntityCfg("robot")


class Scene(dict):
    env_origins = torch.arange(3.0 * N).reshape(N, 3)


@pytest.fixture
def env() -> SimpleNamespace:
    """What terms use of an environment, with one free body of two joints."""
    data = ArticulationData(N, ("hip", "knee"), ("base", "leg"), fixed_base=False, device="cpu")
    physics = SimpleNamespace(
        num_envs=N, device=torch.device("cpu"), written=torch.zeros(N, dtype=torch.bool), ignored_buffers=()
    )
    physics.mark_written = physics.written.logical_or_
    physics.write_default_state = lambda mask: data.write_default_state(Scene.env_origins, mask)
    cfg = ArticulationCfg(asset="none", actuators={})
    env = SimpleNamespace(
        num_envs=N,
        device=torch.device("cpu"),
        generator=torch.Generator().manual_seed(0),
        physics=physics,
        scene=Scene(robot=Articulation("robot", cfg, data, physics)),
        step_dt=0.02,
        max_episode_length_s=20.0,
    )
    env.command_manager = CommandManager({}, env)
    return env


def data_of(env) -> ArticulationData:
    return env.scene["robot"].data


def run_event(env, func, mask=ALL, **params) -> None:
    EventManager({"e": EventTermCfg(func=func, params=params)}, env).apply("reset", mask, step_count=0)


# Observations, rewards, terminations ------------------------------------------------------------------------------


def test_root_observations_read_the_named_state(env):
    data = data_of(env)
    for number, name in enumerate(("root_com_lin_vel_b", "root_ang_vel_b", "projected_gravity_b")):
        getattr(data, name).fill_(number + 1.0)
    data.root_com_vel_w.copy_(torch.arange(6.0))
    data.root_link_pose_w.copy_(torch.tensor([10.0, 20.0, 30.0, 0.0, 0.6, 0.0, -0.8]))
    assert mdp.base_lin_vel(env, ROBOT)[0].tolist() == [1.0] * 3
    assert mdp.base_ang_vel(env, ROBOT)[0].tolist() == [2.0] * 3
    assert mdp.projected_gravity(env, ROBOT)[0].tolist() == [3.0] * 3
    assert mdp.root_lin_vel_w(env, ROBOT)[0].tolist() == [0.0, 1.0, 2.0]
    assert mdp.root_ang_vel_w(env, ROBOT)[0].tolist() == [3.0, 4.0, 5.0]
    assert mdp.base_pos_z(env, ROBOT)[1].tolist() == [30.0]
    assert mdp.root_pos_w(env, ROBOT)[1].tolist() == [7.0, 16.0, 25.0]
    torch.testing.assert_close(mdp.root_quat_w(env, ROBOT)[0], torch.tensor([0.0, 0.6, 0.0, -0.8]))
    torch.testing.assert_close(mdp.root_quat_w(env, ROBOT, True)[0], torch.tensor([0.0, -0.6, 0.0, 0.8]))


def test_root_costs(env):
    data = data_of(env)
    data.root_com_lin_vel_b.copy_(torch.tensor([1.0, 2.0, 3.0]))
    data.root_ang_vel_b.copy_(torch.tensor([1.0, 2.0, 3.0]))
    data.projected_gravity_b.copy_(torch.tensor([0.6, 0.0, -0.8]))
    data.root_link_pose_w[:, 2] = env.scene.env_origins[:, 2] + 0.5
    assert mdp.lin_vel_z_l2(env).tolist() == [9.0] * N
    assert mdp.ang_vel_xy_l2(env).tolist() == [5.0] * N
    torch.testing.assert_close(mdp.flat_orientation_l2(env), torch.full((N,), 0.36))
    torch.testing.assert_close(mdp.base_height_l2(env, target_height=0.3), torch.full((N,), 0.04))


def test_tracking_rewards(env):
    env.command_manager = CommandManager({"velocity": velocity_cfg()}, env)
    data = data_of(env)
    command = env.command_manager.get_command("velocity")
    command.copy_(torch.tensor([1.0, -1.0, 0.5]))
    data.root_com_lin_vel_b.copy_(torch.tensor([0.5, -1.0, 9.0]))
    data.root_ang_vel_b.copy_(torch.tensor([9.0, 9.0, 1.0]))
    linear = mdp.track_lin_vel_xy_exp(env, std=0.5, command_name="velocity")
    angular = mdp.track_ang_vel_z_exp(env, std=0.25, command_name="velocity")
    torch.testing.assert_close(linear, torch.full((N,), math.exp(-1.0)))
    torch.testing.assert_close(angular, torch.full((N,), math.exp(-4.0)))
    assert mdp.generated_commands(env, "velocity") is command


def test_root_terminations(env):
    data = data_of(env)
    data.root_link_pose_w[:, 2] = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
    assert mdp.root_height_below_minimum(env, 0.25).tolist() == [True, True, False, False, False]
    angles = torch.tensor([0.0, 0.9, 1.1, math.pi, 0.5])
    data.projected_gravity_b.copy_(torch.stack([torch.sin(angles), torch.zeros(N), -torch.cos(angles)], dim=1))
    assert mdp.bad_orientation(env, limit_angle=1.0).tolist() == [False, False, True, True, False]
    data.projected_gravity_b.copy_(torch.tensor([0.0, 0.0, -1.0000001]))
    assert not mdp.bad_orientation(env, limit_angle=1e-3).any()


# Events -----------------------------------------------------------------------------------------------------------


def test_scene_reset_puts_the_default_at_the_origin(env):
    data = data_of(env)
    data.default_root_pose[:, :3] = torch.tensor([1.0, 2.0, 3.0])
    before = data.root_link_pose_w.clone()
    run_event(env, mdp.reset_scene_to_default, SOME)
    assert torch.equal(data.root_link_pose_w[SOME, :3], (data.default_root_pose[:, :3] + env.scene.env_origins)[SOME])
    assert torch.equal(data.root_link_pose_w[~SOME], before[~SOME])


def test_root_reset_adds_origin_and_draw_to_the_default(env):
    data = data_of(env)
    data.default_root_pose[:, 2] = 0.5
    data.default_root_vel[:, 0] = 1.0
    run_event(
        env,
        mdp.reset_root_state_uniform,
        pose_range={"x": (1.0, 2.0), "yaw": (0.3, 0.3)},
        velocity_range={"x": (0.5, 0.5), "yaw": (-1.0, -0.5)},
    )
    moved = data.root_link_pose_w[:, :3] - env.scene.env_origins
    assert ((moved[:, 0] >= 1.0 - 1e-5) & (moved[:, 0] <= 2.0 + 1e-5)).all() and moved[:, 0].std() > 0.0
    torch.testing.assert_close(moved[:, 1:], torch.tensor([[0.0, 0.5]]).expand(N, 2))
    yaw = torch.tensor([0.0, 0.0, math.sin(0.15), math.cos(0.15)])
    torch.testing.assert_close(data.root_link_pose_w[:, 3:], yaw.expand(N, 4))
    torch.testing.assert_close(data.root_com_vel_w[:, :5], torch.tensor([1.5, 0.0, 0.0, 0.0, 0.0]).expand(N, 5))
    assert ((data.root_com_vel_w[:, 5] >= -1.0) & (data.root_com_vel_w[:, 5] <= -0.5)).all()


def test_drawn_rotation_is_in_the_frame_of_the_default(env):
    data = data_of(env)
    default = quat_from_euler_xyz(torch.tensor(math.pi / 2), torch.tensor(0.0), torch.tensor(0.0))
    data.default_root_pose[:, 3:] = default
    run_event(env, mdp.reset_root_state_uniform, pose_range={"yaw": (math.pi / 2,) * 2}, velocity_range={})
    x_axis = quat_apply(data.root_link_pose_w[:, 3:], torch.tensor([1.0, 0.0, 0.0]).expand(N, 3))
    expected = quat_apply(default, torch.tensor([0.0, 1.0, 0.0]))
    torch.testing.assert_close(x_axis, expected.expand(N, 3), atol=1e-6, rtol=0.0)


def test_root_reset_draws_pose_then_velocity_and_respects_the_mask(env):
    data = data_of(env)
    keys = ("x", "y", "z", "roll", "pitch", "yaw")
    before = data.root_link_pose_w.clone()
    generator = torch.Generator().manual_seed(0)
    pose, velocity = torch.rand(N, 6, generator=generator), torch.rand(N, 6, generator=generator)
    ranges = dict.fromkeys(keys, (0.0, 1.0))
    run_event(env, mdp.reset_root_state_uniform, SOME, pose_range=ranges, velocity_range=ranges)
    torch.testing.assert_close(data.root_link_pose_w[SOME, :3], (env.scene.env_origins + pose[:, :3])[SOME])
    torch.testing.assert_close(data.root_com_vel_w[SOME], velocity[SOME])
    assert torch.equal(data.root_link_pose_w[~SOME], before[~SOME]) and not data.root_com_vel_w[~SOME].any()
    assert torch.equal(env.physics.written, SOME)


def test_push_adds_to_the_velocity(env):
    data = data_of(env)
    data.root_com_vel_w.fill_(1.0)
    run_event(env, mdp.push_by_setting_velocity, SOME, velocity_range={"y": (0.5, 0.5), "yaw": (-2.0, -2.0)})
    assert data.root_com_vel_w[SOME].tolist() == [[1.0, 1.5, 1.0, 1.0, 1.0, -1.0]] * 2
    assert data.root_com_vel_w[~SOME].tolist() == [[1.0] * 6] * 3


def test_misspelt_component_and_fixed_base_are_refused(env):
    with pytest.raises(TermError, match="velocity_range: unknown component 'yav'. Did you mean 'yaw'"):
        run_event(env, mdp.push_by_setting_velocity, velocity_range={"yav": (0.0, 1.0)})
    data_of(env).fixed_base = True
    with pytest.raises(LabError, match="Cannot write the root velocity of 'robot': its base is fixed"):
        run_event(env, mdp.push_by_setting_velocity, velocity_range={})


@pytest.mark.parametrize(
    ("func", "params", "words"),
    [
        (
            mdp.push_by_setting_velocity,
            {"velocity_range": {"yaw": 0.0}},
            r"params.velocity_range.yaw: got 0.0 \(float\), expected tuple\[float, float\]",
        ),
        (
            mdp.reset_root_state_uniform,
            {"pose_range": {"x": (1.0,)}, "velocity_range": {}},
            r"params.pose_range.x: got 1 values, \(1.0,\), expected 2",
        ),
        (mdp.reset_joints_by_offset, {"position_range": 0.1, "velocity_range": (0.0, 0.0)}, "position_range: got 0.1"),
        (mdp.reset_joints_by_scale, {"position_range": (1.0, 1.0), "velocity_range": (1.0, 0.0)}, "low <= high"),
        (mdp.apply_external_force_torque, {"force_range": 1.0, "torque_range": (0.0, 0.0)}, "force_range: got 1.0"),
    ],
)
def test_what_is_no_range_is_named(env, func, params, words):
    with pytest.raises(TermError, match=words):
        run_event(env, func, **params)


# Velocity command -------------------------------------------------------------------------------------------------


def velocity_cfg(**settings) -> mdp.UniformVelocityCommandCfg:
    ranges = mdp.UniformVelocityRanges(
        lin_vel_x=(1.0, 2.0), lin_vel_y=(-0.5, 0.5), ang_vel_z=(-1.0, 1.0), heading=(-math.pi, math.pi)
    )
    return mdp.UniformVelocityCommandCfg(resampling_time_range=(1.0, 1.0), ranges=ranges, **settings)


def velocity_term(env, **settings) -> mdp.UniformVelocityCommand:
    return CommandManager({"velocity": velocity_cfg(**settings)}, env).get_term("velocity")


def test_velocity_is_drawn_in_its_ranges(env):
    term = velocity_term(env)
    drawn = []
    for _ in range(200):
        term.reset(ALL)
        drawn.append(term.command.clone())
    values = torch.cat(drawn)
    for column, (low, high) in enumerate(((1.0, 2.0), (-0.5, 0.5), (-1.0, 1.0))):
        assert values[:, column].min() >= low and values[:, column].max() <= high
        assert values[:, column].mean().item() == pytest.approx((low + high) / 2, abs=0.1)
        assert values[:, column].std().item() == pytest.approx((high - low) / math.sqrt(12), rel=0.1)


def test_heading_error_becomes_a_clipped_yaw_rate(env):
    term = velocity_term(env, heading_command=True, heading_control_stiffness=0.5)
    term.reset(ALL)
    term.heading_target.copy_(torch.tensor([0.0, 1.0, 3.0, -3.0, 3.1]))
    data_of(env).heading_w.copy_(torch.tensor([0.0, 0.0, 0.0, 3.0, -3.1]))
    term.compute(0.1)
    expected = [0.0, 0.5, 1.0, 0.5 * (2 * math.pi - 6.0), 0.5 * (6.2 - 2 * math.pi)]
    torch.testing.assert_close(term.command[:, 2], torch.tensor(expected))


def test_only_heading_environments_follow_the_heading(env):
    term = velocity_term(env, heading_command=True)
    term.reset(ALL)
    term.is_heading_env.copy_(SOME)
    term.heading_target.zero_()
    drawn = term.command.clone()
    term.compute(0.1)
    assert term.command[SOME, 2].tolist() == [0.0, 0.0]
    assert torch.equal(term.command[~SOME], drawn[~SOME])


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0.0), (0.3, 0.3), (1.0, 1.0)])
def test_standing_environments_are_commanded_zero(env, share, expected):
    term = velocity_term(env, rel_standing_envs=share)
    standing = 0
    for _ in range(200):
        term.reset(ALL)
        term.compute(0.1)
        standing += int((term.command == 0.0).all(dim=1).sum())
    assert standing / (200 * N) == pytest.approx(expected, abs=0.05)


def test_metrics_are_episode_means(env):
    term = velocity_term(env)
    term.reset(ALL)
    data = data_of(env)
    for error in (0.1, 0.3):
        data.root_com_lin_vel_b[:, :2] = term.command[:, :2] + torch.tensor([0.6 * error, 0.8 * error])
        data.root_ang_vel_b[:, 2] = term.command[:, 2] - 2.0 * error
        term.update_metrics()
    log = term.reset(SOME)
    assert float(log["error_vel_xy"]) == pytest.approx(0.2) and float(log["error_vel_yaw"]) == pytest.approx(0.4)
    term.update_metrics()
    assert term.metrics["error_vel_xy"].isfinite().all()


def test_velocity_reset_touches_the_masked_rows_only(env):
    term = velocity_term(env, heading_command=True)
    changed = check_masked_reset(term, term.reset, N)
    assert changed >= {
        "start_pos_w",
        "asked_displacement_w",
        "_command",
        "heading_target",
        "time_left",
        "command_counter",
        "_metric_steps",
    }


def test_two_environments_have_their_own_commands(env):
    first, second = velocity_term(env), velocity_term(env)
    first.reset(ALL)
    assert first.command.any() and not second.command.any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rel_standing_envs": 1.5}, "command term 'velocity': rel_standing_envs must be in 0 .. 1, got 1.5"),
        ({"rel_heading_envs": -0.1}, "rel_heading_envs must be in 0 .. 1, got -0.1"),
        ({"asset_name": "leg"}, "leg"),
    ],
)
def test_bad_velocity_command(env, settings, message):
    with pytest.raises((TermError, KeyError), match=message):
        velocity_term(env, **settings)


def test_heading_and_ranges_are_checked(env):
    cfg = velocity_cfg(heading_command=True)
    cfg.ranges.heading = None
    with pytest.raises(TermError, match="command term 'velocity': heading_command needs ranges.heading"):
        CommandManager({"velocity": cfg}, env)
    cfg = velocity_cfg()
    cfg.ranges.lin_vel_x = (1.0, 0.0)
    with pytest.raises(TermError, match="command term 'velocity': ranges.lin_vel_x must have low <= high"):
        CommandManager({"velocity": cfg}, env)


def test_null_command_has_no_components(env):
    manager = CommandManager({"none": mdp.NullCommandCfg()}, env)
    manager.reset(ALL)
    manager.compute(0.1)
    assert manager.get_command("none").shape == (N, 0)
