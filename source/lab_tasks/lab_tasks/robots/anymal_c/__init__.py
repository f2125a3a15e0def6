"""The ANYbotics ANYmal C quadruped (52.1 kg, or 45.0 kg as in the MuJoCo menagerie)."""

from __future__ import annotations

from typing import Literal

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg, DCMotorActuatorCfg, InitialStateCfg

_ASSETS = {
    "urdf": "lab_tasks:robots/anymal_c/anymal_c.xml",
    "menagerie": "lab_tasks:robots/anymal_c/anymal_c_menagerie.xml",
}


def anymal_c_cfg(variant: Literal["urdf", "menagerie"] = "urdf") -> ArticulationCfg:
    """Returns an ANYmal C that starts 5 cm above the ground, with DC motors in place of its ANYdrives.

    The gains are soft: holding the default pose, the robot sags from 0.55 m to 0.45 m and its feet slide apart. The
    legs are light and without armature, so the explicit damping needs physics steps of at most 5 ms.

    The robot's friction of 0.8 decides over the friction of the ground.

    Args:
        variant: Whose inertia the base has. ``"urdf"``: of ANYbotics' URDF with all parts fixed to the base,
            52.135 kg in all; the tasks use it. ``"menagerie"``: of the MuJoCo menagerie, 44.965 kg in all.

    Raises:
        ConfigError: there is no such variant.
    """
    if variant not in _ASSETS:
        raise ConfigError(f"anymal_c_cfg has no variant {variant!r}. There are: {', '.join(_ASSETS)}.")
    return ArticulationCfg(
        asset=_ASSETS[variant],
        init_state=InitialStateCfg(
            pos=(0.0, 0.0, 0.6),
            joint_pos={".F_HFE": 0.4, ".H_HFE": -0.4, ".F_KFE": -0.8, ".H_KFE": 0.8},
        ),
        actuators={
            "legs": DCMotorActuatorCfg(
                joint_names=(".*",),
                stiffness=40.0,
                damping=5.0,
                effort_limit=80.0,
                saturation_effort=120.0,
                velocity_limit=7.5,
            ),
        },
        soft_joint_pos_limit_factor=0.95,
    )
