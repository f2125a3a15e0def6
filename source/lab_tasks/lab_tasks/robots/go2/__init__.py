"""The Unitree Go2 quadruped (15.2 kg)."""

from __future__ import annotations

from lab_core.scene import ArticulationCfg, IdealPDActuatorCfg, InitialStateCfg


def go2_cfg() -> ArticulationCfg:
    """Returns a Go2 that starts 8 cm above the ground, with the gains of velocity tracking.

    The masses are those of the MuJoCo menagerie, 15.206 kg in all; the maker's URDF sums to 15.019 kg, its calves are
    lighter. The feet are bodies of their own. The joints have neither armature nor friction: the motors' efforts are
    all that moves them. The gains are soft: holding the default pose, the robot sags from 0.32 m to 0.26 m.

    The robot's friction of 0.8 decides over the friction of the ground.
    """
    return ArticulationCfg(
        asset="lab_tasks:robots/go2/go2.xml",
        init_state=InitialStateCfg(
            pos=(0.0, 0.0, 0.4),
            joint_pos={
                ".L_hip_joint": 0.1,
                ".R_hip_joint": -0.1,
                "F._thigh_joint": 0.8,
                "R._thigh_joint": 1.0,
                ".*_calf_joint": -1.5,
            },
        ),
        actuators={
            "hips_and_thighs": IdealPDActuatorCfg(
                joint_names=(".*_hip_joint", ".*_thigh_joint"), stiffness=25.0, damping=0.5, effort_limit=23.7
            ),
            "calves": IdealPDActuatorCfg(
                joint_names=(".*_calf_joint",), stiffness=25.0, damping=0.5, effort_limit=45.43
            ),
        },
        soft_joint_pos_limit_factor=0.9,
        self_collision=False,
    )
