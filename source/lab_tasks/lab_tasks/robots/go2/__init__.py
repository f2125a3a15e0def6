"""The Unitree Go2 quadruped (15.2 kg)."""

from __future__ import annotations

from lab_core.scene import ArticulationCfg, DCMotorActuatorCfg, InitialStateCfg
from lab_tasks.downloads.full_mesh import with_full_meshes

_ASSET = "lab_tasks:robots/go2/go2.xml"


def go2_cfg(full_meshes: bool = False) -> ArticulationCfg:
    """Returns a Go2 that starts 8 cm above the ground, with the gains of velocity tracking.

    The masses are those of the MuJoCo menagerie, 15.206 kg in all; the maker's URDF sums to 15.019 kg, its calves are
    lighter. The feet are bodies of their own. The joints have neither armature nor friction: the motors' efforts are
    all that moves them. The gains are soft: holding the default pose, the robot sags from 0.32 m to 0.26 m.

    The robot's friction of 0.8 decides over the friction of the ground.

    Args:
        full_meshes: Shows the robot in the meshes of the MuJoCo menagerie, for watching; needs a copy of it, see
            ``lab assets list``. The physics stays the same.

    Raises:
        ConfigError: there is no copy of the meshes, or it does not fit.
    """
    return ArticulationCfg(
        asset=with_full_meshes("go2", _ASSET) if full_meshes else _ASSET,
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
            "hips_and_thighs": DCMotorActuatorCfg(
                joint_names=(".*_hip_joint", ".*_thigh_joint"),
                stiffness=25.0,
                damping=0.5,
                effort_limit=23.7,
                saturation_effort=23.7,
                velocity_limit=30.1,
            ),
            # The same motor behind a linkage of 1.92 to 1.
            "calves": DCMotorActuatorCfg(
                joint_names=(".*_calf_joint",),
                stiffness=25.0,
                damping=0.5,
                effort_limit=45.43,
                saturation_effort=45.43,
                velocity_limit=15.7,
            ),
        },
        soft_joint_pos_limit_factor=0.9,
        self_collision=False,
    )
