"""Every twin of a term that returns values, recorded and replayed against its torch term."""

from __future__ import annotations

import pytest
import torch
import warp as wp

import lab_warp.mdp  # noqa: F401  (registers the twins)
from lab_core import mdp
from lab_core.managers import SceneEntityCfg, TermError
from lab_core.mdp import SceneSensorCfg
from lab_warp.testing import FakeEnv, TwinCase, check_signature, check_value_twin, twins_in
from lab_warp.twins import all_twins, find_twin

CUDA = pytest.param(
    "cuda:0",
    marks=pytest.mark.gpu,
)
MODULES = (mdp.observations, mdp.rewards, mdp.terminations, mdp.metrics, mdp.goals)

# A choice out of order, so that a twin that ignores it or sorts it fails.
LEGS = SceneEntityCfg("robot", joint_names=("toe", "hip", "knee"), preserve_order=True)
FEET = ("foot", "thigh")
CONTACTS = SceneSensorCfg("contacts", body_names=FEET, preserve_order=True)
GAPS = SceneSensorCfg("gaps", body_names=FEET, preserve_order=True)
WRENCHES = SceneSensorCfg("wrenches", body_names=FEET, preserve_order=True)
FOOT_BODIES = SceneEntityCfg("robot", body_names=FEET, preserve_order=True)
ONE_JOINT = SceneEntityCfg("robot", joint_names="knee")
RAYS = SceneSensorCfg("rays")
IMU = SceneSensorCfg("imu")
VELOCITY = {"command_name": "velocity"}
GOAL = {"command_name": "goal", "asset_cfg": SceneEntityCfg("robot")}


def case(ulps: int = 0, atol: float = 0.0, **params) -> TwinCase:
    return TwinCase(params=params, ulps=ulps, atol=atol)


def follow_the_command(env: FakeEnv) -> None:
    for error in env.command_manager.get_term("velocity").metrics.values():
        error.mul_(0.5)


def play(env: FakeEnv) -> None:
    motion = env.command_manager.get_term("motion")
    motion.clip.copy_(torch.arange(env.num_envs, device=env.device) % 3)
    motion.frame.copy_(env.episode_length_buf % motion.clip_lengths[motion.clip])


def stand(env: FakeEnv) -> None:
    """In every other environment."""
    env.command_manager.get_term("velocity").command[::2, :2] = 0.05


def touch_seldom(env: FakeEnv) -> None:
    """So that some environments are without a touch in their history."""
    gaps = env.physics.sensors["gaps"]
    gaps.touch_history.logical_and_(gaps.min_gap[:, None] < -0.5)


CASES: dict[str, list[TwinCase]] = {
    "base_pos_z": [case()],
    "base_lin_vel": [case()],
    "base_ang_vel": [case()],
    "projected_gravity": [case()],
    "root_pos_w": [case()],
    "root_quat_w": [case(), case(make_quat_unique=True)],
    "root_lin_vel_w": [case()],
    "root_ang_vel_w": [case()],
    "body_pos_w": [case(), case(asset_cfg=FOOT_BODIES)],
    "body_quat_w": [case(), case(asset_cfg=FOOT_BODIES)],
    "body_vel_w": [case(), case(asset_cfg=FOOT_BODIES)],
    "joint_pos": [case(), case(asset_cfg=LEGS)],
    "joint_pos_rel": [case(), case(asset_cfg=LEGS)],
    "joint_pos_limit_normalized": [case(), case(asset_cfg=LEGS)],
    "joint_vel": [case(), case(asset_cfg=LEGS)],
    "joint_vel_rel": [case(), case(asset_cfg=LEGS)],
    "joint_effort": [case(), case(asset_cfg=LEGS)],
    "height_scan": [case(sensor_cfg=RAYS), case(sensor_cfg=RAYS, offset=0.1)],
    "body_incoming_wrench": [case(sensor_cfg=WRENCHES)],
    "imu_ang_vel": [case(sensor_cfg=IMU)],
    "imu_lin_acc": [case(sensor_cfg=IMU)],
    "last_action": [case(), case(action_name="joints")],
    "generated_commands": [case(**VELOCITY)],
    "current_time_s": [case()],
    "remaining_time_s": [case()],
    "is_alive": [case()],
    "is_terminated": [case()],
    "terminated_penalty": [case()],
    "joint_torques_l2": [case(2), case(2, asset_cfg=LEGS)],
    "joint_vel_l1": [case(2), case(2, asset_cfg=LEGS)],
    "joint_vel_l2": [case(2), case(2, asset_cfg=LEGS)],
    "joint_acc_l2": [case(2), case(2, asset_cfg=LEGS)],
    "joint_deviation_l1": [case(2), case(2, asset_cfg=LEGS)],
    "joint_pos_limits": [case(2), case(2, asset_cfg=LEGS)],
    "joint_pos_target_l2": [case(2, target=0.3), case(2, target=-0.1, asset_cfg=LEGS)],
    "action_rate_l2": [case(2)],
    "action_l2": [case(2)],
    "lin_vel_z_l2": [case()],
    "ang_vel_xy_l2": [case()],
    "flat_orientation_l2": [case()],
    "base_height_l2": [case(target_height=0.4), case(8, target_height=6.0, sensor_cfg=RAYS)],
    "feet_air_time": [
        case(2, sensor_cfg=CONTACTS, threshold=0.5, **VELOCITY),
        TwinCase(params={"sensor_cfg": CONTACTS, "threshold": 0.5, **VELOCITY}, ulps=2, prepare=stand),
        case(2, sensor_cfg=GAPS, threshold=0.5, **VELOCITY),
    ],
    "feet_slide": [case(2, sensor_cfg=CONTACTS, asset_cfg=FOOT_BODIES)],
    "undesired_contacts": [case(sensor_cfg=CONTACTS, threshold=2.5)],
    "undesired_touches": [TwinCase(params={"sensor_cfg": GAPS}, prepare=touch_seldom)],
    "contact_forces": [case(2, atol=1e-6, sensor_cfg=CONTACTS, threshold=1.0)],
    # The relative error of exp(-x) is x times that of x: a std that keeps x near 1 keeps the bound tight.
    "track_lin_vel_xy_exp": [case(2, std=2.5, **VELOCITY)],
    "track_ang_vel_z_exp": [case(2, std=2.5, **VELOCITY)],
    "time_out": [case()],
    "clip_ended": [TwinCase(params={"command_name": "motion"}, prepare=play)],
    "joint_pos_out_of_manual_limit": [case(bounds=(-1.5, 1.0)), case(bounds=(-1.0, 0.8), asset_cfg=LEGS)],
    "joint_pos_out_of_limit": [case(asset_cfg=ONE_JOINT)],
    "root_height_below_minimum": [case(minimum_height=0.1)],
    "bad_orientation": [case(limit_angle=1.4)],
    "illegal_contact": [case(sensor_cfg=CONTACTS, threshold=2.5)],
    "illegal_touch": [TwinCase(params={"sensor_cfg": GAPS}, prepare=touch_seldom)],
    "terrain_out_of_bounds": [case(distance_buffer=1.0)],
    "goal_quat_diff": [case(atol=2e-7, **GOAL)],
    "track_pos_l2": [case(2, **GOAL)],
    "track_orientation_inv_l2": [case(4, **GOAL), case(4, rot_eps=0.5, **GOAL)],
    "success_bonus": [case(**GOAL)],
    "object_away_from_goal": [case(threshold=2.4, **GOAL)],
    "survived": [case()],
    "velocity_tracked": [
        TwinCase(params=VELOCITY, prepare=follow_the_command),
        case(max_error_xy=0.9, max_error_yaw=1.2, **VELOCITY),
    ],
}

TWINS = {name: original for module in MODULES for name, original in twins_in(module).items()}


def test_every_term_has_a_twin_and_every_twin_a_case():
    terms = {
        name
        for name in mdp.__all__
        if getattr(getattr(mdp, name), "__module__", None) in {module.__name__ for module in MODULES}
    }
    assert set(TWINS) == terms
    assert set(CASES) == terms


def test_no_twin_is_in_a_module_that_no_test_covers():
    """Events, actions, commands and curricula have test modules of their own."""
    others = {
        mdp.events,
        mdp.events_properties,
        mdp.actions,
        mdp.commands_null,
        mdp.commands_orientation,
        mdp.commands_velocity,
        mdp.curriculums,
    }
    covered = {module.__name__ for module in {*MODULES, *others}}
    assert {original.__module__ for original in all_twins() if original.__module__.startswith("lab_core.")} == covered


@pytest.mark.parametrize("name", TWINS)
def test_twin_takes_the_parameters_of_its_term(name):
    check_signature(TWINS[name])


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, c, id=f"{name}-{i}") for name, cs in CASES.items() for i, c in enumerate(cs)]
)
def test_twin_replays_what_its_term_returns(name, case, device):
    check_value_twin(TWINS[name], case, device)


def test_nothing_is_out_of_bounds_on_a_plane():
    env = FakeEnv()
    env.physics.terrain = None
    out = wp.ones(env.num_envs, dtype=wp.bool, device=env.wp_device)
    find_twin(mdp.terrain_out_of_bounds)(env, out)
    assert not out.numpy().any()


def test_a_sensor_of_another_kind_is_refused():
    env = FakeEnv()
    out = wp.zeros((env.num_envs, 1), device=env.wp_device)
    with pytest.raises(TermError, match="'imu' measures ImuData, expected RayCasterData"):
        find_twin(mdp.height_scan)(env, out, sensor_cfg=IMU)


@pytest.mark.parametrize("name", ["joint_vel_l2", "joint_pos_limits", "joint_pos_target_l2", "contact_forces"])
def test_what_is_not_a_number_is_not_hidden(name):
    """A world that the solver lost shows in the reward of its own environment, as with torch."""
    params = next(iter(CASES[name])).params
    check_value_twin(TWINS[name], TwinCase(params=params, ulps=4, atol=1e-6, prepare=lose_a_world))


def lose_a_world(env: FakeEnv) -> None:
    data = env.scene["robot"].data
    data.joint_pos[3] = data.joint_vel[3] = torch.nan
    env.physics.sensors["contacts"].net_forces_w_history[3, 1] = torch.nan


@pytest.mark.parametrize("name", ["bad_orientation", "joint_pos_out_of_limit", "root_height_below_minimum"])
def test_what_is_not_a_number_ends_no_episode(name):
    params = next(iter(CASES[name])).params

    def lose(env: FakeEnv) -> None:
        lose_a_world(env)
        data = env.scene["robot"].data
        data.projected_gravity_b[3] = data.root_link_pose_w[3] = torch.nan

    check_value_twin(TWINS[name], TwinCase(params=params, prepare=lose))
