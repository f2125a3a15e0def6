"""Terms that read sensors, on measurements set by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from lab_core import mdp
from lab_core.managers import (
    ObservationGroupCfg,
    ObservationManager,
    ObservationTermCfg,
    RewardManager,
    RewardTermCfg,
    SceneEntityCfg,
    TermError,
)
from lab_core.names import UnknownNameError
from lab_core.scene import Articulation, ArticulationCfg, ArticulationData
from lab_core.sensors import (
    ContactSensorCfg,
    ContactSensorData,
    GapSensorCfg,
    GapSensorData,
    GridPatternCfg,
    ImuCfg,
    ImuData,
    JointWrenchData,
    RayCasterCfg,
    RayCasterData,
)
from lab_core.terrain import TerrainLevels

N = 3
DT = 0.005
CPU = torch.device("cpu")
BODIES = ("base", "left_thigh", "left_foot", "right_thigh", "right_foot")


class Scene(dict):
    """Entities and sensors by name, as the scene of an environment offers them."""

    def __init__(self) -> None:
        super().__init__()
        self.env_origins = torch.zeros(N, 3)
        pattern = GridPatternCfg(size=(0.1, 0.1))
        self.sensors = {
            "contact": ContactSensorData(ContactSensorCfg(history_length=4), N, BODIES, DT, CPU),
            "rays": RayCasterData(RayCasterCfg(body_name="base", pattern=pattern), N, CPU),
            "wrench": JointWrenchData(("left_foot", "right_foot"), N, CPU),
            "imu": ImuData(ImuCfg(body_name="base"), N, CPU),
            "gap": GapSensorData(GapSensorCfg(history_length=4), N, BODIES, DT, CPU),
        }

    def sensor(self, name: str):
        if name not in self.sensors:
            raise UnknownNameError(f"unknown sensor {name!r}. Available: {', '.join(self.sensors)}")
        return self.sensors[name]


@pytest.fixture
def env() -> SimpleNamespace:
    data = ArticulationData(N, ("hip", "knee"), BODIES, fixed_base=False, device="cpu")
    physics = SimpleNamespace(num_envs=N, device=CPU)
    scene = Scene()
    scene["robot"] = Articulation("robot", ArticulationCfg(asset="none", actuators={}), data, physics)
    command = torch.tensor([[1.0, 0.0, 0.0], [0.06, 0.08, 1.0], [0.0, 0.11, 0.0]])
    errors = {"error_vel_xy": torch.zeros(N), "error_vel_yaw": torch.zeros(N)}
    velocity = SimpleNamespace(
        command=command, metrics=errors, start_pos_w=torch.zeros(N, 2), asked_displacement_w=torch.zeros(N, 2)
    )
    return SimpleNamespace(
        num_envs=N,
        device=CPU,
        generator=torch.Generator().manual_seed(0),
        scene=scene,
        step_dt=4 * DT,
        max_episode_length_s=20.0,
        command_manager=SimpleNamespace(get_command=lambda name: command, get_term=lambda name: velocity),
    )


def choose(env, name: str, body_names=None, **kwargs) -> mdp.SceneSensorCfg:
    cfg = mdp.SceneSensorCfg(name, body_names=body_names, **kwargs)
    cfg.resolve(env.scene)
    return cfg


# Choosing -------------------------------------------------------------------------------------------------------------


def test_bodies_are_chosen_by_name_in_the_sensors_or_the_given_order(env):
    assert choose(env, "contact").body_ids == slice(None)
    assert choose(env, "contact", ".*_foot").body_index.tolist() == [2, 4]
    names = ("right_foot", "base")
    assert choose(env, "contact", names).body_index.tolist() == [0, 4]
    assert choose(env, "contact", names, preserve_order=True).body_index.tolist() == [4, 0]
    assert choose(env, "wrench", "right.*").body_index.tolist() == [1]


def test_wrong_choices_name_what_exists(env):
    with pytest.raises(UnknownNameError, match="unknown sensor 'contacts'. Available: contact, rays"):
        choose(env, "contacts")
    with pytest.raises(UnknownNameError, match="No body of sensor 'contact' matches 'foot'. There are: base, left_th"):
        choose(env, "contact", "foot")
    with pytest.raises(TermError, match="Sensor 'imu' has no bodies to choose from, got body_names='base'"):
        choose(env, "imu", "base")
    with pytest.raises(TypeError, match="unexpected keyword argument 'joint_names'"):
        choose(env, "contact", joint_names="hip")
    with pytest.raises(TermError, match="Sensor 'imu' measures ImuData, expected ContactSensorData"):
        mdp.undesired_contacts(env, 1.0, choose(env, "imu"))


def test_managers_resolve_sensors_when_they_are_built(env):
    params = {"threshold": 1.0, "sensor_cfg": mdp.SceneSensorCfg("contact", body_names="left_shin")}
    with pytest.raises(TermError, match="reward term 'touch': No body of sensor 'contact' matches 'left_shin'"):
        RewardManager({"touch": RewardTermCfg(func=mdp.undesired_contacts, params=params)}, env)


# Observations ---------------------------------------------------------------------------------------------------------


def test_height_scan_is_clearance_minus_offset(env):
    rays = env.scene.sensors["rays"]
    rays.pos_w[:, 2] = torch.tensor([0.4, 0.6, 1.0])
    rays.ray_hits_w[..., 2] = torch.tensor([[0.0], [0.0], [0.2]])
    rays.ray_hits_w[2, 1, 2] = 0.3
    scan = mdp.height_scan(env, choose(env, "rays"))
    assert scan.shape == (N, 4)
    assert scan[0].tolist() == pytest.approx([-0.1] * 4)
    assert scan[1].tolist() == pytest.approx([0.1] * 4)
    assert scan[2].tolist() == pytest.approx([0.3, 0.2, 0.3, 0.3])
    assert mdp.height_scan(env, choose(env, "rays"), offset=0.0)[0].tolist() == pytest.approx([0.4] * 4)


@pytest.mark.parametrize("miss", [math.inf, -math.inf])
def test_a_ray_that_misses_is_a_deep_hole(env, miss):
    rays = env.scene.sensors["rays"]
    rays.ray_hits_w[1, 2] = miss
    term = ObservationTermCfg(func=mdp.height_scan, params={"sensor_cfg": mdp.SceneSensorCfg("rays")}, clip=(-1.0, 1.0))
    manager = ObservationManager({"policy": ObservationGroupCfg(terms={"scan": term})}, env)
    scan = manager.compute(update_history=True)["policy"]
    assert scan.isfinite().all()
    assert scan[1].tolist() == [-0.5, -0.5, 1.0, -0.5]


def test_wrench_is_force_then_torque_body_by_body(env):
    env.scene.sensors["wrench"].wrench_b.copy_(torch.arange(N * 12.0).reshape(N, 2, 6))
    assert mdp.body_incoming_wrench(env, choose(env, "wrench"))[1].tolist() == list(range(12, 24))
    assert mdp.body_incoming_wrench(env, choose(env, "wrench", "right_foot"))[0].tolist() == list(range(6, 12))


def test_inertial_sensor(env):
    env.scene.sensors["imu"].ang_vel_b.fill_(2.0)
    env.scene.sensors["imu"].lin_acc_b.fill_(9.81)
    assert (mdp.imu_ang_vel(env, choose(env, "imu")) == 2.0).all()
    assert mdp.imu_lin_acc(env, choose(env, "imu"))[0].tolist() == pytest.approx([9.81] * 3)


# Contacts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("substep", range(4))
def test_a_touch_in_any_substep_of_the_action_counts(env, substep):
    history = env.scene.sensors["contact"].net_forces_w_history
    history[1, substep, 0] = torch.tensor([0.0, 0.6, 0.8 + 1e-6])
    history[2, substep, 0] = torch.tensor([0.0, 0.6, 0.8 - 1e-6])
    base, thighs = choose(env, "contact", "base"), choose(env, "contact", ".*_thigh")
    assert mdp.illegal_contact(env, 1.0, base).tolist() == [False, True, False]
    assert mdp.undesired_contacts(env, 1.0, base).tolist() == [0.0, 1.0, 0.0]
    assert not mdp.illegal_contact(env, 1.0, thighs).any()


def test_undesired_contacts_count_bodies_and_forces_add_up(env):
    history = env.scene.sensors["contact"].net_forces_w_history
    history[0, 0, 1, 2], history[0, 3, 1, 2], history[0, 2, 3, 0] = 5.0, 7.0, -3.0
    thighs = choose(env, "contact", ".*_thigh")
    assert mdp.peak_contact_force(env, thighs)[0].tolist() == [7.0, 3.0]
    assert mdp.undesired_contacts(env, 1.0, thighs).tolist() == [2.0, 0.0, 0.0]
    assert mdp.contact_forces(env, 2.0, thighs).tolist() == [6.0, 0.0, 0.0]
    assert mdp.contact_forces(env, 4.0, thighs).tolist() == [3.0, 0.0, 0.0]


@pytest.mark.parametrize("substep", range(4))
def test_a_touch_without_a_force_counts_in_any_substep_too(env, substep):
    touches = env.scene.sensors["gap"].touch_history
    touches[1, substep, 1] = touches[1, 0, 3] = touches[2, substep, 0] = True
    base, thighs = choose(env, "gap", "base"), choose(env, "gap", ".*_thigh")
    assert mdp.recently_touched(env, thighs).tolist() == [[False, False], [True, True], [False, False]]
    assert mdp.illegal_touch(env, base).tolist() == [False, False, True]
    assert mdp.undesired_touches(env, thighs).tolist() == [0.0, 2.0, 0.0]
    with pytest.raises(TermError, match="Sensor 'contact' measures ContactSensorData, expected GapSensorData"):
        mdp.illegal_touch(env, choose(env, "contact", "base"))


@pytest.mark.parametrize("sensor", ["contact", "gap"])
def test_air_time_is_paid_at_landing_when_asked_to_walk(env, sensor):
    contact = env.scene.sensors[sensor]
    contact.contact_steps[:, 2], contact.last_air_time[:, 2] = 4, 0.7
    contact.contact_steps[:, 4], contact.last_air_time[:, 4] = 1, 0.4
    feet = choose(env, sensor, ".*_foot")
    # The command of environment 1 has the length 0.1, which is standing.
    assert mdp.feet_air_time(env, "v", feet, 0.5).tolist() == pytest.approx([0.2 - 0.1, 0.0, 0.1])
    contact.contact_steps[0, 2] = 5
    assert mdp.feet_air_time(env, "v", feet, 0.5).tolist() == pytest.approx([-0.1, 0.0, 0.1])
    contact.contact_steps.zero_()
    assert not mdp.feet_air_time(env, "v", feet, 0.5).any()


def test_feet_slide_is_the_speed_of_feet_on_the_ground(env):
    feet = choose(env, "contact", ".*_foot")
    bodies = SceneEntityCfg("robot", body_names=".*_foot")
    bodies.resolve(env.scene)
    env.scene["robot"].data.body_com_vel_w[:, [2, 4], :3] = torch.tensor([[3.0, 4.0, 9.0], [0.0, 1.0, 9.0]])
    history = env.scene.sensors["contact"].net_forces_w_history
    history[0, 2, 2, 2] = history[1, 0, 4, 2] = history[2, 1, 0, 2] = 2.0
    assert mdp.feet_slide(env, feet, bodies).tolist() == [5.0, 1.0, 0.0]


# Terrain --------------------------------------------------------------------------------------------------------------


def test_base_height_is_above_the_mean_of_the_hits(env):
    env.scene["robot"].data.root_link_pose_w[:, 2] = 1.0
    env.scene.env_origins[:, 2] = torch.tensor([0.0, 0.0, 0.3])
    hits = env.scene.sensors["rays"].ray_hits_w
    hits[0, :, 2] = torch.tensor([0.1, 0.3, 0.1, 0.3])
    hits[1, :, 2] = torch.tensor([math.inf, 0.5, math.inf, 0.1])
    hits[2, :, 2] = math.inf
    cost = mdp.base_height_l2(env, target_height=0.4, sensor_cfg=choose(env, "rays"))
    assert cost.tolist() == pytest.approx([0.4**2, 0.3**2, 0.0])
    assert mdp.base_height_l2(env, target_height=0.4).tolist() == pytest.approx([0.6**2, 0.6**2, 0.3**2])


@pytest.mark.parametrize("miss", [math.inf, -math.inf, math.nan])
def test_height_costs_nothing_where_no_ray_hits_however_deep_the_robot_fell(env, miss):
    pose = env.scene["robot"].data.root_link_pose_w.requires_grad_()
    pose.data[:, 2] = torch.tensor([-300.0, -1e6, 5.0])
    env.scene.sensors["rays"].ray_hits_w[..., 2] = miss
    cost = mdp.base_height_l2(env, target_height=0.4, sensor_cfg=choose(env, "rays"))
    assert cost.tolist() == [0.0] * N
    cost.sum().backward()
    assert not pose.grad.any()


def on_tiles(env, levels: list[int]) -> TerrainLevels:
    """Puts the environments onto a grid of 4 levels and 1 type, with tiles of 8 m."""
    origins = torch.zeros(4, 1, 3)
    origins[:, 0, 0] = 8.0 * torch.arange(4)
    env.scene.terrain = TerrainLevels(origins, N, torch.Generator().manual_seed(0))
    env.scene.terrain.levels.copy_(torch.tensor(levels))
    env.scene.env_origins = env.scene.terrain.env_origins.copy_(origins[levels, 0])
    env.physics = SimpleNamespace(terrain=SimpleNamespace(tile_size=8.0, size=(50.0, 20.0)))
    env.episode_length_buf = torch.full((N,), 1000)
    env.max_episode_length = 1000
    return env.scene.terrain


def walk(env, distance: list[float]) -> None:
    """As seen from the start, after a whole episode of the command."""
    pose, command = env.scene["robot"].data.root_link_pose_w, env.command_manager.get_term("v")
    pose[:, :3] = env.scene.env_origins
    command.start_pos_w.copy_(pose[:, :2])
    command.asked_displacement_w.copy_(20.0 * command.command[:, :2])
    pose[:, 1] += torch.tensor(distance)


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        (
            [4.1, 4.1, 4.1],
            [0, 2, 2],
        ),  # more than half a tile, but of environment 0 less than half of what was asked for
        ([10.1, 4.1, 4.1], [2, 2, 2]),
        ([3.9, 3.9, 3.9], [0, 1, 1]),  # half of the way asked for: 10, 1 and 1.1 m
        ([3.9, 0.9, 1.0], [0, 0, 0]),
        ([3.9, 1.1, 1.2], [0, 1, 1]),
    ],
)
def test_levels_follow_the_way_walked(env, distance, expected):
    terrain = on_tiles(env, [1, 1, 1])
    walk(env, distance)
    mean = mdp.terrain_levels_vel(env, torch.ones(N, dtype=torch.bool), "v")
    assert terrain.levels.tolist() == expected
    assert float(mean) == pytest.approx(sum(expected) / N)
    assert env.scene.env_origins[:, 0].tolist() == [8.0 * level for level in expected]


def test_levels_have_a_floor_and_no_ceiling(env):
    terrain = on_tiles(env, [0, 3, 3])
    walk(env, [0.0, 5.0, 5.0])
    seen = set()
    for _ in range(40):
        terrain.levels.copy_(torch.tensor([0, 3, 3]))
        mdp.terrain_levels_vel(env, torch.tensor([True, True, False]), "v")
        assert terrain.levels[[0, 2]].tolist() == [0, 3]
        seen.add(int(terrain.levels[1]))
    assert seen == {0, 1, 2, 3}


def test_who_has_not_made_a_step_keeps_the_level(env):
    terrain = on_tiles(env, [1, 1, 1])
    env.episode_length_buf.zero_()
    env.scene["robot"].data.root_link_pose_w.zero_()  # as built, far from the tile
    mdp.terrain_levels_vel(env, torch.ones(N, dtype=torch.bool), "v")
    assert terrain.levels.tolist() == [1, 1, 1]


def test_levels_need_generated_ground(env):
    env.scene.terrain, env.physics = None, SimpleNamespace(terrain=None)
    with pytest.raises(TermError, match="terrain_levels_vel needs generated ground: set scene.terrain"):
        mdp.terrain_levels_vel(env, torch.ones(N, dtype=torch.bool), "v")


def test_bounds_are_those_of_the_generated_ground(env):
    on_tiles(env, [0, 0, 0])
    position = env.scene["robot"].data.root_link_pose_w
    position[:, 0], position[:, 1] = torch.tensor([-24.9, 25.1, 0.0]), torch.tensor([0.0, 0.0, -10.1])
    assert mdp.terrain_out_of_bounds(env, distance_buffer=0.0).tolist() == [False, True, True]
    assert mdp.terrain_out_of_bounds(env, distance_buffer=1.0).tolist() == [True, True, True]
    env.physics.terrain, env.reset_buf = None, torch.zeros(N, dtype=torch.bool)
    assert not mdp.terrain_out_of_bounds(env).any()


# Metrics --------------------------------------------------------------------------------------------------------------


def test_velocity_counts_as_tracked_when_both_mean_errors_are_small(env):
    errors = env.command_manager.get_term("v").metrics
    errors["error_vel_xy"].copy_(torch.tensor([0.49, 0.49, 0.51]))
    errors["error_vel_yaw"].copy_(torch.tensor([0.39, 0.41, 0.39]))
    assert mdp.velocity_tracked(env, "v").tolist() == [1.0, 0.0, 0.0]
    assert mdp.velocity_tracked(env, "v", max_error_xy=0.8).tolist() == [1.0, 0.0, 1.0]
