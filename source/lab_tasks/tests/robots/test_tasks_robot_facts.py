"""Model files of Ant, Go2 and ANYmal C against published facts about the robots, computed with C MuJoCo."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

import mujoco
import numpy as np
import pytest

from lab_core.errors import ConfigError
from lab_core.names import match_names, values_by_name
from lab_core.scene import ArticulationCfg
from lab_tasks.robots.ant import ant_cfg
from lab_tasks.robots.anymal_c import anymal_c_cfg
from lab_tasks.robots.go2 import go2_cfg

Point = tuple[float, float, float]

CONFIGS = {
    "ant": ant_cfg(),
    "go2": go2_cfg(),
    "anymal_c": anymal_c_cfg(drive="dc_motor"),
    "anymal_c_menagerie": anymal_c_cfg(variant="menagerie", drive="dc_motor"),
}


@dataclass(frozen=True, kw_only=True)
class Pose:
    """Facts about one robot in one pose, its base at the origin. Lists are in joint order."""

    robot: str
    joint_pos: tuple[float, ...] | None = None
    """[rad]. None: the default pose of the robot's configuration."""
    mass: float
    com: Point
    root_inertia: Point
    """Diagonal of the whole robot's inertia about the base's origin [kg m^2]."""
    gravity_effort: tuple[float, ...] | None = None
    """Effort that holds each joint against gravity, the base held too [N m]."""
    mass_matrix_diag: tuple[float, ...] | None = None
    """Without armature [kg m^2]."""
    lowest: Mapping[str, float] = field(default_factory=dict)
    """Height of the lowest point of a collision shape [m]."""
    points: Mapping[str, Point] = field(default_factory=dict)
    """Positions of bodies' frames and of centres of foot spheres [m]."""


POSES = {
    "ant_default": Pose(
        robot="ant",
        mass=0.910880083,
        com=(0.0, 0.0, -0.0593643),
        root_inertia=(0.12489, 0.12489, 0.20833),
        gravity_effort=(0.0, -0.13262, 0.0, 0.13262, 0.0, 0.13262, 0.0, -0.13262),
        mass_matrix_diag=(0.018551, 0.008082) * 4,
        lowest={"front_left_foot": -0.48, "front_right_foot": -0.48, "left_back_foot": -0.48, "right_back_foot": -0.48},
    ),
    "ant_zero": Pose(
        robot="ant",
        joint_pos=(0.0,) * 8,
        mass=0.910880083,
        com=(0.0, 0.0, 0.0),
        root_inertia=(0.12969, 0.12969, 0.24942),
        gravity_effort=(0.0, -0.18755, 0.0, 0.18755, 0.0, 0.18755, 0.0, -0.18755),
        mass_matrix_diag=(0.025655, 0.008082) * 4,
        lowest={"torso": -0.25},
    ),
    "go2_default": Pose(
        robot="go2",
        mass=15.206408,
        com=(-0.00398282, 0.0, -0.0202645),
        root_inertia=(0.19464, 0.51397, 0.55937),
        gravity_effort=(
            *(1.1419, 0.42707, -0.22597),
            *(-1.1419, 0.42707, -0.22597),
            *(1.13174, 0.58164, -0.17274),
            *(-1.13174, 0.58164, -0.17274),
        ),
        mass_matrix_diag=(0.02863, 0.024707, 0.006326) * 2 + (0.025838, 0.024707, 0.006326) * 2,
        lowest={
            "FL_foot_collision": -0.323503,
            "FR_foot_collision": -0.323503,
            "RL_foot_collision": -0.313921,
            "RR_foot_collision": -0.313921,
        },
        points={
            "FL_hip": (0.1934, 0.0465, 0.0),
            "FL_thigh": (0.1934, 0.141523, 0.00953409),
            "FL_calf": (0.0406032, 0.156338, -0.138123),
            "RR_calf": (-0.372633, -0.153012, -0.104975),
            "FL_foot_collision": (0.176292, 0.172731, -0.301503),
            "FR_foot_collision": (0.176292, -0.172731, -0.301503),
            "RL_foot_collision": (-0.272271, 0.171769, -0.291921),
            "RR_foot_collision": (-0.272271, -0.171769, -0.291921),
        },
    ),
    "go2_crouched": Pose(
        robot="go2",
        joint_pos=(0.0, 0.9, -1.8) * 4,
        mass=15.206408,
        com=(-0.00216912, 0.0, -0.0214065),
        root_inertia=(0.17726, 0.49078, 0.53544),
        gravity_effort=(1.06478, 0.43924, -0.27155, -1.06478, 0.43924, -0.27155) * 2,
        mass_matrix_diag=(0.023572, 0.02039, 0.006326) * 4,
        lowest=dict.fromkeys((f"{leg}_foot_collision" for leg in ("FL", "FR", "RL", "RR")), -0.288373),
        points={
            "FL_hip": (0.1934, 0.0465, 0.0),
            "FL_thigh": (0.1934, 0.142, 0.0),
            "FL_calf": (0.0265514, 0.142, -0.132403),
            "RR_calf": (-0.360249, -0.142, -0.132403),
            "FL_foot_collision": (0.192157, 0.142, -0.266373),
            "FR_foot_collision": (0.192157, -0.142, -0.266373),
            "RL_foot_collision": (-0.194643, 0.142, -0.266373),
            "RR_foot_collision": (-0.194643, -0.142, -0.266373),
        },
    ),
    "go2_zero": Pose(
        robot="go2",
        joint_pos=(0.0,) * 12,
        mass=15.206408,
        com=(0.00887523, 0.0, -0.0348709),
        root_inertia=(0.27369, 0.56467, 0.51291),
        gravity_effort=(1.06478, 0.02736, -0.01491, -1.06478, 0.02736, -0.01491) * 2,
        mass_matrix_diag=(0.04768, 0.038864, 0.006326) * 4,
        lowest=dict.fromkeys((f"{leg}_foot_collision" for leg in ("FL", "FR", "RL", "RR")), -0.448),
        points={
            "FL_hip": (0.1934, 0.0465, 0.0),
            "FL_thigh": (0.1934, 0.142, 0.0),
            "FL_calf": (0.1934, 0.142, -0.213),
            "RR_calf": (-0.1934, -0.142, -0.213),
            "FL_foot_collision": (0.1914, 0.142, -0.426),
            "FR_foot_collision": (0.1914, -0.142, -0.426),
            "RL_foot_collision": (-0.1954, 0.142, -0.426),
            "RR_foot_collision": (-0.1954, -0.142, -0.426),
        },
    ),
    "anymal_c_default": Pose(
        robot="anymal_c",
        mass=52.13485,
        com=(-0.0090013, -9.01451e-05, -0.0632454),
        root_inertia=(2.17538, 5.372, 5.40807),
    ),
    "anymal_c_menagerie_default": Pose(
        robot="anymal_c_menagerie",
        mass=44.96518,
        com=(0.00106769, 0.0, -0.0568756),
        root_inertia=(2.22255, 4.26467, 4.19017),
        gravity_effort=(
            *(5.02207, 3.01742, -0.50698),
            *(-5.02207, 3.01484, -0.50698),
            *(5.02207, -3.01484, 0.50698),
            *(-5.02207, -3.01742, 0.50698),
        ),
        mass_matrix_diag=(
            *(0.312949, 0.283052, 0.016197),
            *(0.313149, 0.283052, 0.016197) * 2,
            *(0.312949, 0.283052, 0.016197),
        ),
        lowest=dict.fromkeys((f"{leg}_FOOT_collision1" for leg in ("LF", "RF", "LH", "RH")), -0.54882),
        points={
            "LF_HIP": (0.2999, 0.104, 0.0),
            "LF_THIGH": (0.3598, 0.18781, 0.0),
            "LF_SHANK": (0.248816, 0.28811, -0.262502),
            "RH_SHANK": (-0.248816, -0.28811, -0.262502),
            "LF_FOOT_collision1": (0.452673, 0.30116, -0.51882),
            "RF_FOOT_collision1": (0.452673, -0.30116, -0.51882),
            "LH_FOOT_collision1": (-0.452673, 0.30116, -0.51882),
            "RH_FOOT_collision1": (-0.452673, -0.30116, -0.51882),
        },
    ),
    "anymal_c_menagerie_standing": Pose(
        robot="anymal_c_menagerie",
        joint_pos=(0.0, math.pi / 6, -math.pi / 4) * 2 + (0.0, -math.pi / 6, math.pi / 4) * 2,
        mass=44.96518,
        com=(0.00106769, 0.0, -0.0529686),
        root_inertia=(2.13785, 3.95991, 3.97009),
        gravity_effort=(
            *(5.02207, 4.06273, -0.46203),
            *(-5.02207, 4.0603, -0.46203),
            *(5.02207, -4.0603, 0.46203),
            *(-5.02207, -4.06273, 0.46203),
        ),
        mass_matrix_diag=(
            *(0.291756, 0.283544, 0.016197),
            *(0.291998, 0.283544, 0.016197) * 2,
            *(0.291756, 0.283544, 0.016197),
        ),
        lowest=dict.fromkeys((f"{leg}_FOOT_collision1" for leg in ("LF", "RF", "LH", "RH")), -0.558775),
        points={
            "LF_HIP": (0.2999, 0.104, 0.0),
            "LF_THIGH": (0.3598, 0.18781, 0.0),
            "LF_SHANK": (0.2173, 0.28811, -0.246817),
            "RH_SHANK": (-0.2173, -0.28811, -0.246817),
            "LF_FOOT_collision1": (0.383903, 0.30116, -0.528775),
            "RF_FOOT_collision1": (0.383903, -0.30116, -0.528775),
            "LH_FOOT_collision1": (-0.383903, 0.30116, -0.528775),
            "RH_FOOT_collision1": (-0.383903, -0.30116, -0.528775),
        },
    ),
    "anymal_c_menagerie_zero": Pose(
        robot="anymal_c_menagerie",
        joint_pos=(0.0,) * 12,
        mass=44.96518,
        com=(0.00106769, 0.0, -0.0649336),
        root_inertia=(2.44399, 5.34516, 5.04922),
        gravity_effort=(
            *(5.02207, -0.35217, -0.35358),
            *(-5.02207, -0.35498, -0.35358),
            *(5.02207, 0.35498, 0.35358),
            *(-5.02207, 0.35217, 0.35358),
        ),
        mass_matrix_diag=(0.368409, 0.305994, 0.016197) * 4,
        lowest=dict.fromkeys((f"{leg}_FOOT_collision1" for leg in ("LF", "RF", "LH", "RH")), -0.63047),
        points={
            "LF_HIP": (0.2999, 0.104, 0.0),
            "LF_THIGH": (0.3598, 0.18781, 0.0),
            "LF_SHANK": (0.3598, 0.28811, -0.285),
            "RH_SHANK": (-0.3598, -0.28811, -0.285),
            "LF_FOOT_collision1": (0.44775, 0.30116, -0.60047),
            "RF_FOOT_collision1": (0.44775, -0.30116, -0.60047),
            "LH_FOOT_collision1": (-0.44775, 0.30116, -0.60047),
            "RH_FOOT_collision1": (-0.44775, -0.30116, -0.60047),
        },
    ),
}


def path_of(cfg: ArticulationCfg) -> str:
    package, _, inside = cfg.asset.partition(":")
    return str(files(package) / inside)


@pytest.fixture(scope="module")
def models() -> dict[str, mujoco.MjModel]:
    return {name: mujoco.MjModel.from_xml_path(path_of(cfg)) for name, cfg in CONFIGS.items()}


def joint_names(model: mujoco.MjModel) -> list[str]:
    return [model.joint(i).name for i in range(1, model.njnt)]


def body_names(model: mujoco.MjModel) -> list[str]:
    return [model.body(i).name for i in range(1, model.nbody)]


def default_joint_pos(model: mujoco.MjModel, cfg: ArticulationCfg) -> list[float]:
    return values_by_name(cfg.init_state.joint_pos, joint_names(model), what="joint")


def lowest_points(model: mujoco.MjModel, data: mujoco.MjData) -> dict[str, float]:
    """Returns the heights of the lowest points of the spheres and capsules that collide [m]."""
    heights = {}
    for i in range(model.ngeom):
        kind, (radius, half, _) = mujoco.mjtGeom(model.geom_type[i]), model.geom_size[i]
        if model.geom_contype[i] and kind in (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE):
            drop = abs(data.geom_xmat[i, 8]) * half if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0
            heights[model.geom(i).name] = data.geom_xpos[i, 2] - drop - radius
    return heights


@pytest.mark.parametrize("pose", POSES.values(), ids=POSES.keys())
def test_facts(models, pose):
    model = models[pose.robot]
    data = mujoco.MjData(model)
    data.qpos[:7] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    data.qpos[7:] = pose.joint_pos or default_joint_pos(model, CONFIGS[pose.robot])
    mujoco.mj_forward(model, data)
    mass_matrix = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass_matrix)
    diagonal = mass_matrix.diagonal() - model.dof_armature

    assert model.body_mass.sum() == pytest.approx(pose.mass, abs=1e-6)
    assert data.subtree_com[1] == pytest.approx(pose.com, abs=1e-6)
    assert diagonal[3:6] == pytest.approx(pose.root_inertia, abs=1e-5)
    if pose.gravity_effort:
        assert data.qfrc_bias[6:] == pytest.approx(pose.gravity_effort, abs=1e-5)
    if pose.mass_matrix_diag:
        assert diagonal[6:] == pytest.approx(pose.mass_matrix_diag, abs=2e-6)
    lowest = lowest_points(model, data)
    for shape, height in pose.lowest.items():
        assert lowest[shape] == pytest.approx(height, abs=2e-6), shape
    if pose.lowest:
        assert min(pose.lowest.values()) == pytest.approx(min(lowest.values()), abs=2e-6)
    for name, position in pose.points.items():
        found = data.geom(name).xpos if name.endswith(("collision", "collision1")) else data.body(name).xpos
        assert found == pytest.approx(position, abs=2e-6), name


def test_ant_foot_ends(models):
    """The foot's capsule ends 0.4 m along x and y of its frame, away from the torso."""
    model = models["ant"]
    data = mujoco.MjData(model)
    signs = {"front_left": (1, 1), "front_right": (-1, 1), "left_back": (-1, -1), "right_back": (1, -1)}
    for joint_pos, reach, height in ((default_joint_pos(model, ant_cfg()), 0.682843, -0.4), ([0.0] * 8, 0.8, 0.0)):
        data.qpos[:7] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
        data.qpos[7:] = joint_pos
        mujoco.mj_kinematics(model, data)
        for leg, (x, y) in signs.items():
            frame = data.body(f"{leg}_foot")
            end = frame.xpos + frame.xmat.reshape(3, 3) @ [0.4 * x, 0.4 * y, 0.0]
            assert end == pytest.approx([reach * x, reach * y, height], abs=1e-6)


ORDERS = {
    "ant": [
        *("front_left_leg", "front_left_foot", "front_right_leg", "front_right_foot"),
        *("left_back_leg", "left_back_foot", "right_back_leg", "right_back_foot"),
    ],
    "go2": [f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")],
    "anymal_c": [f"{leg}_{part}" for leg in ("LF", "RF", "LH", "RH") for part in ("HAA", "HFE", "KFE")],
}
RANGES = {
    "ant": [(-0.6981317, 0.6981317), (0.5235988, 1.745329), (-0.6981317, 0.6981317), (-1.745329, -0.5235988)]
    + [(-0.6981317, 0.6981317), (-1.745329, -0.5235988), (-0.6981317, 0.6981317), (0.5235988, 1.745329)],
    "go2": [(-1.0472, 1.0472), (-1.5708, 3.4907), (-2.7227, -0.83776)] * 2
    + [(-1.0472, 1.0472), (-0.5236, 4.5379), (-2.7227, -0.83776)] * 2,
    "anymal_c": [
        *[(-0.72, 0.49), (-9.42478, 9.42478), (-9.42478, 9.42478)],
        *[(-0.49, 0.72), (-9.42478, 9.42478), (-9.42478, 9.42478)],
    ]
    * 2,
}
ARMATURES = {"ant": 0.05, "go2": 0.0, "anymal_c": 0.005}
ACTUATORS = {  # per joint of a leg: stiffness, damping, effort limit, stall effort, no-load speed
    "ant": [(0.0, 0.1, 15.0, math.inf, math.inf)] * 2,
    "go2": [(25.0, 0.5, 23.7, 23.7, 30.1), (25.0, 0.5, 23.7, 23.7, 30.1), (25.0, 0.5, 45.43, 45.43, 15.7)],
    "anymal_c": [(40.0, 5.0, 80.0, 120.0, 7.5)] * 3,
}
FIELDS = ("stiffness", "damping", "effort_limit", "saturation_effort", "velocity_limit")


@pytest.mark.parametrize("robot", ORDERS)
def test_joints(models, robot):
    model = models[robot]
    assert joint_names(model) == ORDERS[robot]
    assert model.jnt_range[1:] == pytest.approx(np.array(RANGES[robot]), abs=1e-6)
    assert model.dof_armature[6:] == pytest.approx(ARMATURES[robot])
    # All damping, friction and effort of a joint is its actuator's.
    assert not model.dof_damping.any()
    assert not model.dof_frictionloss.any()
    assert model.nu == 0
    low, high = model.jnt_range[1:].T
    default = np.array(default_joint_pos(model, CONFIGS[robot]))
    assert ((low < default) & (default < high)).all()


@pytest.mark.parametrize("robot", ACTUATORS)
def test_actuators(models, robot):
    names = joint_names(models[robot])
    found: dict[str, tuple[float, ...]] = {}
    for group in CONFIGS[robot].actuators.values():
        settings = tuple(getattr(group, name, math.inf) for name in FIELDS)
        found |= {names[i]: settings for i in match_names(group.joint_names, names, what="joint")}
    assert found == dict(zip(names, ACTUATORS[robot] * 4, strict=True))


def test_feet_are_bodies_of_their_own(models):
    """Splitting a foot off leaves mass and balance of the lower leg as they were."""
    for robot, lower, foot, mass, com in (
        ("go2", "FL_calf", "FL_foot", 0.241352, (0.00629595, -0.000622121, -0.141417)),
        ("go2", "RR_calf", "RR_foot", 0.241352, (0.00629595, 0.000622121, -0.141417)),
        ("anymal_c", "LF_SHANK", "LF_FOOT", 0.58842, (0.005462, -0.0612528, -0.0806598)),
        ("anymal_c", "RF_SHANK", "RF_FOOT", 0.58842, (0.005462, 0.0612528, -0.0806598)),
    ):
        upper, end = models[robot].body(lower), models[robot].body(foot)
        assert (upper.mass + end.mass)[0] == pytest.approx(mass, abs=1e-9)
        assert end.jntnum[0] == 0
        found = (upper.mass * upper.ipos + end.mass * (end.pos + end.ipos)) / (upper.mass + end.mass)
        assert found == pytest.approx(com, abs=1e-8)


@pytest.mark.parametrize("robot", CONFIGS)
def test_shapes(models, robot):
    """What is only seen never collides; the default state starts just above the ground and touches nothing."""
    model, cfg = models[robot], CONFIGS[robot]
    seen = model.geom_group == 2
    assert not model.geom_contype[seen].any()
    assert not model.geom_conaffinity[seen].any()
    assert (model.geom_contype[~seen] == 1).all()
    data = mujoco.MjData(model)
    data.qpos[2] = cfg.init_state.pos[2]
    data.qpos[7:] = default_joint_pos(model, cfg)
    mujoco.mj_forward(model, data)
    assert data.ncon == 0
    assert 0.0 < min(lowest_points(model, data).values()) < 0.1


def test_anymal_variants_differ_in_the_base_alone(models):
    heavy, light = models["anymal_c"], models["anymal_c_menagerie"]
    assert body_names(heavy) == body_names(light)
    assert heavy.body_mass[2:] == pytest.approx(light.body_mass[2:])
    assert heavy.body_mass[1] == pytest.approx(26.37317)
    assert light.body_mass[1] == pytest.approx(19.2035)
    with pytest.raises(ConfigError, match="no variant 'light'. There are: urdf, menagerie"):
        anymal_c_cfg(variant="light")  # pyright: ignore[reportArgumentType]


def test_anymal_thighs_pass_through_the_base(models):
    """A thigh that is turned up into the base touches nothing: contacts of the base end episodes."""
    model = models["anymal_c"]
    data = mujoco.MjData(model)
    for leg in ("LF", "RF", "LH", "RH"):
        data.joint(f"{leg}_HAA").qpos = model.joint(f"{leg}_HAA").range[0 if leg[0] == "L" else 1]
        data.joint(f"{leg}_HFE").qpos = math.pi / 2 if leg[1] == "F" else -math.pi / 2
        data.joint(f"{leg}_KFE").qpos = 0.0
    mujoco.mj_forward(model, data)
    touching = {frozenset(model.body(model.geom_bodyid[geom]).name for geom in pair) for pair in data.contact.geom}
    assert not touching & {frozenset({"base", f"{leg}_THIGH"}) for leg in ("LF", "RF", "LH", "RH")}
