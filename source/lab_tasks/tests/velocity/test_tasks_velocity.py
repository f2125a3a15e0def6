"""Definitions of the velocity tasks; nothing is built."""

from __future__ import annotations

import math

import pytest

from lab_core import mdp
from lab_core.config import check_complete, load_yaml, save_yaml
from lab_core.registry import get_task, task_ids

GO2 = ("Lab-Velocity-Flat-Go2", "Lab-Velocity-Rough-Go2")
ANYMAL_C = ("Lab-Velocity-Flat-AnymalC", "Lab-Velocity-Rough-AnymalC")
ROUGH = (GO2[1], ANYMAL_C[1])
TASKS = (*GO2, *ANYMAL_C)

WEIGHTS = {
    "Lab-Velocity-Flat-Go2": {
        "track_lin_vel_xy_exp": 1.5,
        "track_ang_vel_z_exp": 0.75,
        "lin_vel_z_l2": -2.0,
        "ang_vel_xy_l2": -0.05,
        "dof_torques_l2": -2e-4,
        "dof_acc_l2": -2.5e-7,
        "action_rate_l2": -0.005,
        "feet_air_time": 0.25,
        "flat_orientation_l2": -2.5,
        "base_height_l2": -30.0,
    },
    "Lab-Velocity-Rough-Go2": {
        "track_lin_vel_xy_exp": 1.5,
        "track_ang_vel_z_exp": 0.75,
        "lin_vel_z_l2": -2.0,
        "ang_vel_xy_l2": -0.05,
        "dof_torques_l2": -2e-4,
        "dof_acc_l2": -2.5e-7,
        "action_rate_l2": -0.005,
        "feet_air_time": 0.01,
        "base_height_l2": -30.0,
    },
    "Lab-Velocity-Flat-AnymalC": {
        "track_lin_vel_xy_exp": 1.0,
        "track_ang_vel_z_exp": 0.5,
        "lin_vel_z_l2": -2.0,
        "ang_vel_xy_l2": -0.05,
        "dof_torques_l2": -2.5e-5,
        "dof_acc_l2": -2.5e-7,
        "action_rate_l2": -0.01,
        "feet_air_time": 0.5,
        "undesired_contacts": -1.0,
        "flat_orientation_l2": -5.0,
    },
    "Lab-Velocity-Rough-AnymalC": {
        "track_lin_vel_xy_exp": 1.0,
        "track_ang_vel_z_exp": 0.5,
        "lin_vel_z_l2": -2.0,
        "ang_vel_xy_l2": -0.05,
        "dof_torques_l2": -1e-5,
        "dof_acc_l2": -2.5e-7,
        "action_rate_l2": -0.01,
        "feet_air_time": 0.125,
        "undesired_contacts": -1.0,
    },
}

AGENTS = {
    "Lab-Velocity-Flat-Go2": (300, (128, 128, 128), 0.01),
    "Lab-Velocity-Rough-Go2": (1500, (512, 256, 128), 0.01),
    "Lab-Velocity-Flat-AnymalC": (300, (128, 128, 128), 0.005),
    "Lab-Velocity-Rough-AnymalC": (1500, (512, 256, 128), 0.005),
}


@pytest.mark.parametrize("task", TASKS)
def test_reward_weights(task):
    rewards = get_task(task).make_env_cfg().rewards
    assert {name: term.weight for name, term in rewards.items()} == WEIGHTS[task]


@pytest.mark.parametrize("task", TASKS)
def test_timing_and_sensors_are_the_same_for_all_robots(task):
    cfg = get_task(task).make_env_cfg()
    check_complete(cfg)
    assert (cfg.physics.dt, cfg.decimation, cfg.episode_length_s) == (0.005, 4, 20.0)
    assert cfg.scene.sensors["contact_forces"].history_length == cfg.decimation
    assert cfg.scene.num_envs is None


@pytest.mark.parametrize("task", TASKS)
def test_command(task):
    command = get_task(task).make_env_cfg().commands["base_velocity"]
    ranges = command.ranges
    assert ranges.lin_vel_x == ranges.lin_vel_y == ranges.ang_vel_z == (-1.0, 1.0)
    assert ranges.heading == (-math.pi, math.pi)
    assert command.resampling_time_range == (10.0, 10.0)
    assert (command.heading_control_stiffness, command.rel_heading_envs, command.rel_standing_envs) == (0.5, 1.0, 0.02)
    assert command.heading_command


@pytest.mark.parametrize("task", TASKS)
def test_observations_with_their_noise(task):
    group = get_task(task).make_env_cfg().observations["policy"]
    noise = {name: term.noise and (term.noise.n_min, term.noise.n_max) for name, term in group.terms.items()}
    expected = {
        "base_lin_vel": (-0.1, 0.1),
        "base_ang_vel": (-0.2, 0.2),
        "projected_gravity": (-0.05, 0.05),
        "velocity_commands": None,
        "joint_pos": (-0.01, 0.01),
        "joint_vel": (-1.5, 1.5),
        "actions": None,
    }
    if task in ROUGH:
        expected["height_scan"] = (-0.1, 0.1)
        assert group.terms["height_scan"].clip == (-1.0, 1.0)
    assert group.enable_corruption
    assert list(noise.items()) == list(expected.items())


@pytest.mark.parametrize("task", TASKS)
def test_disturbances(task):
    events = get_task(task).make_env_cfg().events
    assert [(name, term.mode) for name, term in events.items()] == [
        ("physics_material", "startup"),
        ("add_base_mass", "startup"),
        ("base_com", "startup"),
        ("reset_base", "reset"),
        ("reset_robot_joints", "reset"),
        ("push_robot", "interval"),
    ]
    assert events["add_base_mass"].params["mass_distribution_params"] == (0.8, 1.25)
    assert events["add_base_mass"].params["distribution"] == "log_uniform"
    assert events["base_com"].params["com_range"] == {"x": (-0.05, 0.05), "y": (-0.05, 0.05), "z": (-0.01, 0.01)}
    assert events["reset_robot_joints"].params["position_range"] == (0.5, 1.5)
    assert len(events["reset_base"].params["velocity_range"]) == 6
    assert events["push_robot"].interval_range_s == (10.0, 15.0)
    assert events["push_robot"].params["velocity_range"] == {"x": (-0.5, 0.5), "y": (-0.5, 0.5)}


@pytest.mark.parametrize(
    ("task", "scale", "first", "last", "feet"),
    [
        (GO2[0], 0.25, "FL_hip_joint", "RR_calf_joint", ".*_foot"),
        (ANYMAL_C[0], 0.5, "LF_HAA", "RH_KFE", ".*_FOOT"),
    ],
)
def test_joints_have_an_order_by_name(task, scale, first, last, feet):
    cfg = get_task(task).make_env_cfg()
    action, terms = cfg.actions["joint_pos"], cfg.observations["policy"].terms
    assert (action.scale, action.clip, action.preserve_order) == (scale, None, True)
    assert (len(action.joint_names), action.joint_names[0], action.joint_names[-1]) == (12, first, last)
    for name in ("joint_pos", "joint_vel"):
        joints = terms[name].params["asset_cfg"]
        assert (joints.joint_names, joints.preserve_order) == (action.joint_names, True)
    assert cfg.rewards["feet_air_time"].params["sensor_cfg"].body_names == feet
    assert cfg.rewards["feet_air_time"].params["threshold"] == 0.5


@pytest.mark.parametrize("play", [False, True])
@pytest.mark.parametrize("task", [task for task in task_ids() if task.startswith("Lab-")])
@pytest.mark.filterwarnings("ignore:ANYmal moves with DC motors")
def test_generated_ground_has_an_edge_that_ends_episodes(task, play):
    """Beyond it a robot falls for as long as the episode lasts."""
    cfg = get_task(task).make_env_cfg(play=play)
    if cfg.scene.terrain is not None:
        ends = [term for term in cfg.terminations.values() if term and term.func is mdp.terrain_out_of_bounds]
        assert [term.time_out for term in ends] == [True]


@pytest.mark.parametrize("task", ROUGH)
def test_rough_ground_adds_what_flat_ground_lacks(task):
    cfg = get_task(task).make_env_cfg()
    flat = get_task(task.replace("Rough", "Flat")).make_env_cfg()
    assert (flat.scene.terrain, flat.curriculum, list(flat.scene.sensors)) == (None, {}, ["contact_forces"])
    terrain = cfg.scene.terrain
    assert cfg.scene.ground is None
    assert (terrain.num_rows, terrain.num_cols, terrain.size, terrain.border_width) == (10, 20, 8.0, 20.0)
    assert terrain.curriculum
    assert cfg.curriculum["terrain_levels"].func is mdp.terrain_levels_vel
    bounds = cfg.terminations["terrain_out_of_bounds"]
    assert (bounds.func, bounds.time_out, bounds.params) == (mdp.terrain_out_of_bounds, True, {"distance_buffer": 3.0})
    assert [name for name in cfg.terminations if name not in flat.terminations] == ["terrain_out_of_bounds"]
    scanner = cfg.scene.sensors["height_scanner"]
    assert (scanner.pattern.size, scanner.pattern.resolution, scanner.alignment) == ((1.6, 1.0), 0.1, "yaw")
    assert scanner.offset == (0.0, 0.0, 20.0)


def test_obstacles_fit_the_robot():
    for task, step, box, noise in (
        (GO2[1], (0.025, 0.12), (0.025, 0.1), (0.01, 0.06)),
        (ANYMAL_C[1], (0.05, 0.23), (0.05, 0.2), (0.02, 0.10)),
    ):
        tiles = get_task(task).make_env_cfg().scene.terrain.sub_terrains
        assert tiles["pyramid_stairs"].step_height_range == tiles["pyramid_stairs_inv"].step_height_range == step
        assert tiles["boxes"].grid_height_range == box
        assert tiles["random_rough"].noise_range == noise


@pytest.mark.parametrize("task", TASKS)
def test_play_is_undisturbed(task):
    cfg = get_task(task).make_env_cfg(play=True)
    check_complete(cfg)
    assert cfg.scene.num_envs == 16
    assert not cfg.observations["policy"].enable_corruption
    assert cfg.events["push_robot"] is None
    if task in ROUGH:
        assert (cfg.scene.terrain.num_rows, cfg.scene.terrain.num_cols, cfg.scene.terrain.curriculum) == (5, 5, False)
        assert cfg.curriculum["terrain_levels"] is None
    # The one for training is a fresh one.
    assert get_task(task).make_env_cfg().observations["policy"].enable_corruption


@pytest.mark.parametrize("task", TASKS)
def test_a_run_can_be_started_again_from_its_file(task, tmp_path):
    cfg = get_task(task).make_env_cfg()
    save_yaml(cfg, tmp_path / "env.yaml")
    assert load_yaml(tmp_path / "env.yaml") == cfg


@pytest.mark.parametrize("task", TASKS)
def test_agents(task):
    agent = get_task(task).make_agent_cfg()
    iterations, hidden, entropy = AGENTS[task]
    assert (agent.num_steps_per_env, agent.max_iterations) == (24, iterations)
    assert tuple(agent.actor_hidden_dims) == tuple(agent.critic_hidden_dims) == hidden
    assert (agent.entropy_coef, agent.learning_rate, agent.schedule, agent.desired_kl) == (
        entropy,
        1e-3,
        "adaptive",
        0.01,
    )
