"""The Unitree G1 humanoid with 29 joints (revision 1.0, rubber hands; 33.34 kg)."""

from __future__ import annotations

import math

from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg
from lab_tasks.downloads.full_mesh import with_full_meshes

_ASSET = "lab_tasks:robots/g1/g1.xml"

NATURAL_FREQUENCY = 2.0 * math.pi * 10.0
"""Of every position loop with its rotor alone [rad/s]."""
DAMPING_RATIO = 2.0

# Motor -> (reflected rotor inertia [kg m^2], effort limit [N m], joints). The model file holds the same inertias.
# Ankles and the waist's roll and pitch are moved by two 5020 motors each through parallel linkages.
_MOTORS: dict[str, tuple[float, float, tuple[str, ...]]] = {
    "motor_7520_14": (0.01017752, 88.0, (".*_hip_pitch_joint", ".*_hip_yaw_joint", "waist_yaw_joint")),
    "motor_7520_22": (0.02510192, 139.0, (".*_hip_roll_joint", ".*_knee_joint")),
    "motor_5020_pair": (0.00721945, 50.0, (".*_ankle_.*_joint", "waist_roll_joint", "waist_pitch_joint")),
    "motor_5020": (0.003609725, 25.0, (".*_shoulder_.*_joint", ".*_elbow_joint", ".*_wrist_roll_joint")),
    "motor_4010": (0.00425, 5.0, (".*_wrist_pitch_joint", ".*_wrist_yaw_joint")),
}


def g1_cfg(full_meshes: bool = False) -> ArticulationCfg:
    """Returns a G1 that starts with bent knees, feet 3 mm above the ground, with the gains of motion tracking.

    Stiffness and damping follow from each joint's rotor inertia J, as in BeyondMimic (arXiv 2508.08241):
    stiffness J w^2 and damping 2 z J w with w = :data:`NATURAL_FREQUENCY` and z = :data:`DAMPING_RATIO`. They are soft
    on purpose: without a policy the robot leans forward and falls within two seconds. The explicit PD law is stable
    for physics steps of at most 7 ms. Efforts are limited, joint speeds are not.

    Shapes that collide are spheres and capsules, and one box per sole, where other models of this robot put seven thin
    capsules: as low, as long and as wide to 4 mm, with fewer contacts. Only the soles have friction against the
    robot's own bodies; their 0.6 decides over the friction of the ground.

    Args:
        full_meshes: Shows the robot in the meshes of the MuJoCo menagerie, for watching; needs a copy of it, see
            ``lab assets list``. The physics stays the same.

    Raises:
        ConfigError: there is no copy of the meshes, or it does not fit.
    """
    return ArticulationCfg(
        asset=with_full_meshes("g1", _ASSET) if full_meshes else _ASSET,
        init_state=InitialStateCfg(
            pos=(0.0, 0.0, 0.76),
            joint_pos={
                ".*_hip_pitch_joint": -0.312,
                ".*_knee_joint": 0.669,
                ".*_ankle_pitch_joint": -0.363,
                ".*_shoulder_pitch_joint": 0.2,
                "left_shoulder_roll_joint": 0.2,
                "right_shoulder_roll_joint": -0.2,
                ".*_elbow_joint": 0.6,
            },
        ),
        actuators={
            motor: IdealPDActuatorCfg(
                joint_names=joints,
                stiffness=_stiffness(inertia),
                damping=2.0 * DAMPING_RATIO * inertia * NATURAL_FREQUENCY,
                effort_limit=effort_limit,
            )
            for motor, (inertia, effort_limit, joints) in _MOTORS.items()
        },
        soft_joint_pos_limit_factor=0.9,
    )


def g1_action_scale() -> dict[str, float]:
    """Returns joint pattern -> position target per unit of action [rad].

    A quarter of the offset from the joint's position at which the motor reaches its effort limit.
    """
    return {
        pattern: 0.25 * effort_limit / _stiffness(inertia)
        for inertia, effort_limit, joints in _MOTORS.values()
        for pattern in joints
    }


def _stiffness(inertia: float) -> float:
    return inertia * NATURAL_FREQUENCY**2
