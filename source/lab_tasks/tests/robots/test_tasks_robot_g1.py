"""The G1's model file, and gains against published facts about the robot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import mujoco
import numpy as np
import pytest

from lab_core.names import match_names, values_by_name
from lab_core.scene import IdealPDActuatorCfg
from lab_tasks.robots.g1 import g1_action_scale, g1_cfg

MASSES = {  # [kg], in body order
    "pelvis": 3.813,
    "left_hip_pitch_link": 1.35,
    "left_hip_roll_link": 1.52,
    "left_hip_yaw_link": 1.702,
    "left_knee_link": 1.932,
    "left_ankle_pitch_link": 0.074,
    "left_ankle_roll_link": 0.608,
    "right_hip_pitch_link": 1.35,
    "right_hip_roll_link": 1.52,
    "right_hip_yaw_link": 1.702,
    "right_knee_link": 1.932,
    "right_ankle_pitch_link": 0.074,
    "right_ankle_roll_link": 0.608,
    "waist_yaw_link": 0.214,
    "waist_roll_link": 0.086,
    "torso_link": 7.818,
    "left_shoulder_pitch_link": 0.718,
    "left_shoulder_roll_link": 0.643,
    "left_shoulder_yaw_link": 0.734,
    "left_elbow_link": 0.6,
    "left_wrist_roll_link": 0.085445,
    "left_wrist_pitch_link": 0.48405,
    "left_wrist_yaw_link": 0.254576,
    "right_shoulder_pitch_link": 0.718,
    "right_shoulder_roll_link": 0.643,
    "right_shoulder_yaw_link": 0.734,
    "right_elbow_link": 0.6,
    "right_wrist_roll_link": 0.085445,
    "right_wrist_pitch_link": 0.48405,
    "right_wrist_yaw_link": 0.254576,
}

JOINTS = {  # range [rad], armature, stiffness, damping, effort limit, action scale; in joint order
    "left_hip_pitch_joint": (-2.5307, 2.8798, 0.01017752, 40.17924, 2.55789, 88.0, 0.5475465),
    "left_hip_roll_joint": (-0.5236, 2.9671, 0.02510192, 99.09843, 6.308802, 139.0, 0.3506615),
    "left_hip_yaw_joint": (-2.7576, 2.7576, 0.01017752, 40.17924, 2.55789, 88.0, 0.5475465),
    "left_knee_joint": (-0.087267, 2.8798, 0.02510192, 99.09843, 6.308802, 139.0, 0.3506615),
    "left_ankle_pitch_joint": (-0.87267, 0.5236, 0.00721945, 28.50125, 1.814446, 50.0, 0.4385773),
    "left_ankle_roll_joint": (-0.2618, 0.2618, 0.00721945, 28.50125, 1.814446, 50.0, 0.4385773),
    "right_hip_pitch_joint": (-2.5307, 2.8798, 0.01017752, 40.17924, 2.55789, 88.0, 0.5475465),
    "right_hip_roll_joint": (-2.9671, 0.5236, 0.02510192, 99.09843, 6.308802, 139.0, 0.3506615),
    "right_hip_yaw_joint": (-2.7576, 2.7576, 0.01017752, 40.17924, 2.55789, 88.0, 0.5475465),
    "right_knee_joint": (-0.087267, 2.8798, 0.02510192, 99.09843, 6.308802, 139.0, 0.3506615),
    "right_ankle_pitch_joint": (-0.87267, 0.5236, 0.00721945, 28.50125, 1.814446, 50.0, 0.4385773),
    "right_ankle_roll_joint": (-0.2618, 0.2618, 0.00721945, 28.50125, 1.814446, 50.0, 0.4385773),
    "waist_yaw_joint": (-2.618, 2.618, 0.01017752, 40.17924, 2.55789, 88.0, 0.5475465),
    "waist_roll_joint": (-0.52, 0.52, 0.00721945, 28.50125, 1.814446, 50.0, 0.4385773),
    "waist_pitch_joint": (-0.52, 0.52, 0.00721945, 28.50125, 1.814446, 50.0, 0.4385773),
    "left_shoulder_pitch_joint": (-3.0892, 2.6704, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "left_shoulder_roll_joint": (-1.5882, 2.2515, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "left_shoulder_yaw_joint": (-2.618, 2.618, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "left_elbow_joint": (-1.0472, 2.0944, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "left_wrist_roll_joint": (-1.97222, 1.97222, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "left_wrist_pitch_joint": (-1.61443, 1.61443, 0.00425, 16.77833, 1.068142, 5.0, 0.07450087),
    "left_wrist_yaw_joint": (-1.61443, 1.61443, 0.00425, 16.77833, 1.068142, 5.0, 0.07450087),
    "right_shoulder_pitch_joint": (-3.0892, 2.6704, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "right_shoulder_roll_joint": (-2.2515, 1.5882, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "right_shoulder_yaw_joint": (-2.618, 2.618, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "right_elbow_joint": (-1.0472, 2.0944, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "right_wrist_roll_joint": (-1.97222, 1.97222, 0.003609725, 14.25062, 0.9072228, 25.0, 0.4385773),
    "right_wrist_pitch_joint": (-1.61443, 1.61443, 0.00425, 16.77833, 1.068142, 5.0, 0.07450087),
    "right_wrist_yaw_joint": (-1.61443, 1.61443, 0.00425, 16.77833, 1.068142, 5.0, 0.07450087),
}


@dataclass(frozen=True)
class Pose:
    """Figures with the pelvis at the origin; torques and inertias in joint order, inertias without rotors."""

    joint_pos: Mapping[str, float]
    foot_bottom: float
    body_pos: Mapping[str, tuple[float, ...]]
    body_quat_wxyz: Mapping[str, tuple[float, ...]]
    site_pos: Mapping[str, tuple[float, ...]]
    com: tuple[float, ...]
    gravity_torque: list[float]
    inertia_diagonal: list[float]
    root_rotational_inertia: tuple[float, ...]


HOME = {
    ".*_hip_pitch_joint": -0.1,
    ".*_knee_joint": 0.3,
    ".*_ankle_pitch_joint": -0.2,
    ".*_shoulder_pitch_joint": 0.2,
    ".*_elbow_joint": 1.28,
    "left_shoulder_roll_joint": 0.2,
    "right_shoulder_roll_joint": -0.2,
}

# One line per quantity.
# fmt: off
POSES = {
    "knees_bent": Pose(
        joint_pos={
        **HOME,
        ".*_hip_pitch_joint": -0.312,
        ".*_knee_joint": 0.669,
        ".*_ankle_pitch_joint": -0.363,
        ".*_elbow_joint": 0.6,
    },
        foot_bottom=-0.757022,
        body_pos={
            "left_hip_yaw_link": (0.0895215, 0.116452, -0.229692),
            "left_knee_link": (0.10332, 0.118601, -0.423046),
            "left_ankle_roll_link": (-0.00141752, 0.118506, -0.721698),
            "right_ankle_roll_link": (-0.00141752, -0.118506, -0.721698),
            "torso_link": (-0.0039635, 0.0, 0.044),
            "left_shoulder_roll_link": (-0.00274742, 0.140485, 0.289226),
            "left_elbow_link": (-0.0237634, 0.182969, 0.110918),
            "left_wrist_yaw_link": (0.0972959, 0.214477, -0.0244016),
            "right_wrist_yaw_link": (0.0972959, -0.214467, -0.0244016),
        },
        body_quat_wxyz={
            "left_ankle_roll_link": (0.999996, 0.0, -0.003, 0.0),
            "right_ankle_roll_link": (0.999996, 0.0, -0.003, 0.0),
            "left_wrist_yaw_link": (0.916776, 0.089703, 0.386436, 0.046281),
            "right_wrist_yaw_link": (0.916776, -0.089703, 0.386436, -0.046281),
        },
        site_pos={
            "left_foot": (0.0388038, 0.118506, -0.758457),
            "right_foot": (0.0388038, -0.118506, -0.758457),
            "left_palm": (0.15306, 0.226812, -0.0804214),
            "right_palm": (0.15306, -0.226802, -0.0804214),
            "imu_in_pelvis": (0.04525, 0.0, -0.08339),
            "imu_in_torso": (-0.0435535, -0.00224, 0.19192),
        },
        com=(0.0305942, 8.22609e-05, -0.0875914),
        gravity_torque=[
            -4.50656, -0.06127, 0.02515, 1.25027, -0.15398, 0.0, -4.50656, 0.06127, -0.02515, 1.25027,
            -0.15398, -0.0, 0.0, 0.02642, -1.56717, -0.54651, 1.2688, 0.35768, -1.19027, -0.00274,
            -0.27388, 0.03575, -0.54651, -1.2688, -0.35768, -1.19027, 0.00274, -0.27388, -0.03575,
        ],
        inertia_diagonal=[
            0.854266, 0.639762, 0.129573, 0.111469, 0.002777, 0.000387, 0.854266, 0.639851, 0.129484,
            0.111469, 0.002777, 0.000387, 0.281529, 0.774455, 0.554365, 0.174846, 0.132365, 0.02742,
            0.034454, 0.000366, 0.004804, 0.001837, 0.174846, 0.132365, 0.02742, 0.034454, 0.000366,
            0.004804, 0.001837,
        ],
        root_rotational_inertia=(3.77908, 3.44861, 0.57339),
    ),
    "home": Pose(
        joint_pos=HOME,
        foot_bottom=-0.784202,
        body_pos={
            "left_hip_yaw_link": (0.0607962, 0.116452, -0.245686),
            "left_knee_link": (0.0336012, 0.118601, -0.437614),
            "left_ankle_roll_link": (-0.0260016, 0.118506, -0.749202),
            "right_ankle_roll_link": (-0.0260016, -0.118506, -0.749202),
            "torso_link": (-0.0039635, 0.0, 0.044),
            "left_shoulder_roll_link": (-0.00274742, 0.140485, 0.289226),
            "left_elbow_link": (-0.0237634, 0.182969, 0.110918),
            "left_wrist_yaw_link": (-0.0169591, 0.221801, -0.0690964),
            "right_wrist_yaw_link": (-0.0169591, -0.221791, -0.0690964),
        },
        body_quat_wxyz={
            "left_ankle_roll_link": (1.0, 0.0, 0.0, 0.0),
            "right_ankle_roll_link": (1.0, 0.0, 0.0, 0.0),
            "left_wrist_yaw_link": (0.735423, 0.0691339, 0.670048, 0.0735464),
            "right_wrist_yaw_link": (0.735423, -0.0691339, 0.670048, -0.0735464),
        },
        site_pos={
            "left_foot": (0.0139984, 0.118506, -0.786202),
            "right_foot": (0.0139984, -0.118506, -0.786202),
            "left_palm": (-0.00965876, 0.237867, -0.147126),
            "right_palm": (-0.00965876, -0.237857, -0.147126),
            "imu_in_pelvis": (0.04525, 0.0, -0.08339),
            "imu_in_torso": (-0.0435535, -0.00224, 0.19192),
        },
        com=(0.00764847, 8.22609e-05, -0.0966801),
        gravity_torque=[
            -1.93322, -0.06672, 0.01459, 0.59922, -0.15281, 0.0, -1.93322, 0.06672, -0.01459, 0.59922,
            -0.15281, -0.0, 0.0, 0.02642, 0.79117, 0.58698, 1.40176, 0.14362, -0.03621, -0.00015,
            -0.03586, 0.03589, 0.58698, -1.40176, -0.14362, -0.03621, 0.00015, -0.03586, -0.03589,
        ],
        inertia_diagonal=[
            0.902778, 0.733045, 0.073876, 0.11347, 0.002777, 0.000387, 0.902778, 0.733118, 0.073803,
            0.11347, 0.002777, 0.000387, 0.270395, 0.796616, 0.55105, 0.197948, 0.17653, 0.004686,
            0.034454, 0.000366, 0.004804, 0.001837, 0.197948, 0.17653, 0.004686, 0.034454, 0.000366,
            0.004804, 0.001837,
        ],
        root_rotational_inertia=(3.99424, 3.58052, 0.50258),
    ),
    "zero": Pose(
        joint_pos={},
        foot_bottom=-0.791864,
        body_pos={
            "left_hip_yaw_link": (0.0462177, 0.116452, -0.251041),
            "left_knee_link": (-2.3309e-06, 0.118601, -0.439296),
            "left_ankle_roll_link": (-2.3309e-06, 0.118506, -0.756864),
            "right_ankle_roll_link": (-2.3309e-06, -0.118506, -0.756864),
            "torso_link": (-0.0039635, 0.0, 0.044),
            "left_shoulder_roll_link": (3.73939e-07, 0.14056, 0.288961),
            "left_elbow_link": (0.0157745, 0.146808, 0.105243),
            "left_wrist_yaw_link": (0.199774, 0.148661, 0.0952328),
            "right_wrist_yaw_link": (0.199774, -0.148651, 0.0952328),
        },
        body_quat_wxyz={
            "left_ankle_roll_link": (1.0, 0.0, 0.0, 0.0),
            "right_ankle_roll_link": (1.0, 0.0, 0.0, 0.0),
            "left_wrist_yaw_link": (1.0, 2.92745e-05, 2.74716e-05, -9.57958e-05),
            "right_wrist_yaw_link": (1.0, -2.92745e-05, 2.74716e-05, 9.57958e-05),
        },
        site_pos={
            "left_foot": (0.0399977, 0.118506, -0.793864),
            "right_foot": (0.0399977, -0.118506, -0.793864),
            "left_palm": (0.279774, 0.148646, 0.0952284),
            "right_palm": (0.279774, -0.148636, 0.0952284),
            "imu_in_pelvis": (0.04525, 0.0, -0.08339),
            "imu_in_torso": (-0.0435535, -0.00224, 0.19192),
        },
        com=(0.0203321, 8.22609e-05, -0.0886659),
        gravity_torque=[
            -1.2193, -0.06827, 0.00935, -0.25624, -0.15281, 0.0, -1.2193, 0.06827, -0.00935, -0.25624,
            -0.15281, -0.0, 0.0, 0.02642, -4.7852, -2.09339, 0.19409, 0.00013, -1.88142, -0.00437,
            -0.40097, 1e-05, -2.09339, -0.19409, -0.00013, -1.88142, 0.00437, -0.40097, -1e-05,
        ],
        inertia_diagonal=[
            0.914959, 0.773494, 0.038329, 0.115564, 0.002777, 0.000387, 0.914959, 0.773525, 0.038298,
            0.115564, 0.002777, 0.000387, 0.26113, 0.687141, 0.610092, 0.129868, 0.081039, 0.041196,
            0.034454, 0.000366, 0.004804, 0.001837, 0.129868, 0.081039, 0.041196, 0.034454, 0.000366,
            0.004804, 0.001837,
        ],
        root_rotational_inertia=(3.95693, 3.69729, 0.48338),
    ),
}
# fmt: on


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(files("lab_tasks") / "robots/g1/g1.xml"))


@pytest.fixture(params=POSES)
def posed(model, request) -> tuple[Pose, mujoco.MjData]:
    pose = POSES[request.param]
    return pose, at_pose(model, pose.joint_pos)


def at_pose(model: mujoco.MjModel, joint_pos: Mapping[str, float]) -> mujoco.MjData:
    """Returns the robot at rest with the pelvis at the origin."""
    data = mujoco.MjData(model)
    data.qpos[:7] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    data.qpos[7:] = values_by_name(joint_pos, list(JOINTS), what="joint")
    mujoco.mj_forward(model, data)
    return data


def mass_matrix(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    dense = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, dense)
    return dense


def lowest_point(model: mujoco.MjModel, data: mujoco.MjData, box: str) -> float:
    geom = model.geom(box).id
    return data.geom_xpos[geom, 2] - np.abs(data.geom_xmat[geom].reshape(3, 3)[2]) @ model.geom_size[geom]


def test_bodies_and_masses(model):
    assert {model.body(i).name: model.body_mass[i] for i in range(1, model.nbody)} == pytest.approx(MASSES)
    assert [model.body(i).name for i in range(1, model.nbody)] == list(MASSES)
    assert model.body_mass.sum() == pytest.approx(33.341142, abs=1e-6)


def test_joints(model):
    hinges = range(1, model.njnt)
    assert [model.joint(i).name for i in hinges] == list(JOINTS)
    facts = np.array(list(JOINTS.values()))
    assert model.jnt_range[1:] == pytest.approx(facts[:, :2])
    assert model.dof_armature[6:] == pytest.approx(facts[:, 2], rel=1e-6)
    assert not model.dof_damping.any()
    assert not model.dof_frictionloss.any()
    assert model.nu == 0


def test_gains():
    names = list(JOINTS)
    facts = np.array(list(JOINTS.values()))
    found = np.full((len(names), 3), np.nan)
    for group in g1_cfg().actuators.values():
        assert isinstance(group, IdealPDActuatorCfg)
        ids = match_names(group.joint_names, names, what="joint")
        assert np.isnan(found[ids]).all(), "a joint is in two groups"
        found[ids] = (group.stiffness, group.damping, group.effort_limit)
    assert found == pytest.approx(facts[:, 3:6], rel=1e-6)
    assert values_by_name(g1_action_scale(), names, what="joint") == pytest.approx(facts[:, 6], rel=1e-6)


def test_kinematics(model, posed):
    pose, data = posed
    for name, position in pose.body_pos.items():
        assert data.body(name).xpos == pytest.approx(position, abs=1e-5), name
    for name, quat in pose.body_quat_wxyz.items():
        assert data.body(name).xquat == pytest.approx(quat, abs=1e-5), name
    for name, position in pose.site_pos.items():
        assert data.site(name).xpos == pytest.approx(position, abs=1e-5), name
    for side in ("left", "right"):
        assert lowest_point(model, data, f"{side}_foot_collision") == pytest.approx(pose.foot_bottom, abs=1e-4)


def test_dynamics(model, posed):
    pose, data = posed
    diagonal = mass_matrix(model, data).diagonal() - model.dof_armature
    assert data.subtree_com[model.body("pelvis").id] == pytest.approx(pose.com, abs=1e-6)
    assert data.qfrc_bias[6:] == pytest.approx(pose.gravity_torque, abs=2e-5)
    assert diagonal[6:] == pytest.approx(pose.inertia_diagonal, abs=2e-6)
    assert diagonal[3:6] == pytest.approx(pose.root_rotational_inertia, abs=2e-5)


def test_default_state_touches_the_ground_with_the_feet(model):
    init = g1_cfg().init_state
    data = at_pose(model, init.joint_pos)
    assert init.joint_pos == POSES["knees_bent"].joint_pos
    assert init.pos == (0.0, 0.0, 0.76)
    assert 0.0 < init.pos[2] + lowest_point(model, data, "left_foot_collision") < 0.004


def test_nothing_touches_in_ordinary_poses(posed):
    """The shapes of wrist and elbow, and of pelvis and hips, always overlap; these pairs are excluded."""
    _, data = posed
    assert data.ncon == 0


def test_legs_touch_when_crossed(model):
    data = at_pose(model, {"left_hip_roll_joint": -0.4, "right_hip_roll_joint": 0.4})
    touching = {frozenset(model.geom(g).name for g in pair) for pair in data.contact.geom}
    assert frozenset({"left_shin_collision", "right_shin_collision"}) in touching


def test_shapes_and_friction(model):
    collides = model.geom_contype != 0
    assert (model.geom_group[collides] == 3).all()
    assert (model.geom_group[~collides] == 2).all()
    assert not model.geom_conaffinity[~collides].any()
    for geom in np.flatnonzero(collides):
        foot = model.geom(geom).name.endswith("foot_collision")
        assert model.geom_condim[geom] == (3 if foot else 1)
        assert model.geom_priority[geom] == (1 if foot else 0)
        assert not foot or model.geom_friction[geom, 0] == 0.6


def test_explicit_pd_is_stable_at_five_milliseconds(model):
    """Every mode of the linearised, semi-implicit Euler update decays."""
    facts = np.array(list(JOINTS.values()))
    free = np.zeros(6)
    data = at_pose(model, g1_cfg().init_state.joint_pos)
    inverse = np.linalg.inv(mass_matrix(model, data))
    stiffness = (inverse @ np.diag([*free, *facts[:, 3]]))[6:, 6:]
    damping = (inverse @ np.diag([*free, *facts[:, 4]]))[6:, 6:]

    def growth(dt: float) -> float:
        one = np.eye(len(JOINTS))
        velocity = np.hstack([-dt * stiffness, one - dt * damping])
        position = np.hstack([one, 0.0 * one]) + dt * velocity
        return np.abs(np.linalg.eigvals(np.vstack([position, velocity]))).max()

    assert growth(0.005) < 1.0
    assert growth(0.010) > 1.0
