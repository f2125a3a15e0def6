"""The ANYbotics ANYmal C quadruped (52.1 kg, or 45.0 kg as in the MuJoCo menagerie)."""

from __future__ import annotations

from typing import Literal

from lab_core.errors import ConfigError
from lab_core.scene import ArticulationCfg, InitialStateCfg
from lab_tasks.downloads.full_mesh import with_full_meshes
from lab_tasks.robots.anymal_c.drives import Drive, anydrive_cfg

_ASSETS = {
    "urdf": "lab_tasks:robots/anymal_c/anymal_c.xml",
    "menagerie": "lab_tasks:robots/anymal_c/anymal_c_menagerie.xml",
}


def anymal_c_cfg(
    variant: Literal["urdf", "menagerie"] = "urdf", drive: Drive = "auto", full_meshes: bool = False
) -> ArticulationCfg:
    """Returns an ANYmal C that starts 5 cm above the ground.

    Holding the default pose, 0.55 m high, it stands at 0.51 m with the network of its drives. DC motors in their place
    are soft: the robot sags to 0.45 m and its feet slide apart. The legs are light, with an armature of 0.005 kg m^2
    per joint, so the explicit damping needs physics steps of at most 5 ms.

    The robot's friction of 0.8 decides over the friction of the ground.

    Args:
        variant: Whose inertia the base has. ``"urdf"``: of ANYbotics' URDF with all parts fixed to the base,
            52.135 kg in all; the tasks use it. ``"menagerie"``: of the MuJoCo menagerie, 44.965 kg in all.
        drive: Model of the ANYdrives, see :func:`lab_tasks.robots.anymal_c.drives.anydrive_cfg`.
        full_meshes: Shows the robot in the meshes of the MuJoCo menagerie, for watching; needs a copy of it, see
            ``lab assets list``. The physics stays the same.

    Raises:
        ConfigError: there is no such variant or drive, no file of the network although it was asked for, or no copy of
            the meshes that fits.
    """
    if variant not in _ASSETS:
        raise ConfigError(f"anymal_c_cfg has no variant {variant!r}. There are: {', '.join(_ASSETS)}.")
    asset = _ASSETS[variant]
    return ArticulationCfg(
        asset=with_full_meshes("anymal_c", asset) if full_meshes else asset,
        init_state=InitialStateCfg(
            pos=(0.0, 0.0, 0.6),
            joint_pos={".F_HFE": 0.4, ".H_HFE": -0.4, ".F_KFE": -0.8, ".H_KFE": 0.8},
        ),
        actuators={"legs": anydrive_cfg((".*",), drive)},
        soft_joint_pos_limit_factor=0.95,
    )
