"""The actuators that a model file describes: what the scene does with them."""

from __future__ import annotations

import warnings
from collections.abc import Collection

from lab_newton.robot_files.engine import mujoco
from lab_newton.robot_files.imported import ImportedFile


def joint_of(imported: ImportedFile, actuator: int) -> str | None:
    """Returns the joint that an actuator of the file drives; None if it drives something else."""
    assert imported.file is not None and imported.names is not None
    model = imported.file.model
    kind = mujoco.mjtTrn(model.actuator_trntype[actuator])
    if kind not in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT):
        return None
    return imported.names.of("joint", int(model.actuator_trnid[actuator, 0]))


def warn_of_idle_joints(entity: str, imported: ImportedFile, driven: Collection[str]) -> None:
    """Warns of joints that actuators of the file drive, and none of the configuration does.

    Args:
        entity: Name of the entity.
        imported: Its file.
        driven: Joints that the configured actuators drive.
    """
    if imported.file is None:
        return
    joints = {joint_of(imported, actuator) for actuator in range(imported.file.model.nu)}
    idle = [joint for joint in imported.layout.joint_names if joint in joints and joint not in driven]
    if idle:
        warnings.warn(
            f"Entity {entity!r}: nothing drives {', '.join(idle)}, which actuators of {imported.file.path.name!r} "
            f"drive. Name them in scene.entities[{entity!r}].actuators.",
            stacklevel=2,
        )
