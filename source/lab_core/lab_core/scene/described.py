"""What the actuators of an entity are, joint by joint, whatever their groups are called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from lab_core.config import to_dict
from lab_core.names import values_by_name
from lab_core.scene.actuators import ActuatorCfg
from lab_core.scene.defaults import actuated_joints


def actuator_fields(
    name: str,
    actuators: Mapping[str, ActuatorCfg],
    joint_names: tuple[str, ...],
    find_file: Callable[[str], Path] = Path,
) -> dict[str, dict[str, Any]]:
    """Returns joint -> field -> value of its actuator, as configured; joints without one are left out.

    A number by joint names or expressions is that of the joint. A field called ``..._file`` holds the SHA-256 of the
    file's content, so that it does not matter where the file lies.

    Args:
        name: Name of the entity, for messages.
        actuators: Groups by name.
        joint_names: Joints of the entity.
        find_file: Returns the file that such a field names.
    """
    found: dict[str, dict[str, Any]] = {}
    for group, ids in actuated_joints(name, actuators, joint_names).items():
        actuator, joints = actuators[group], [joint_names[i] for i in ids]
        for joint in joints:
            found[joint] = {"kind": type(actuator).__name__}
        for field in fields(actuator):
            if field.name == "joint_names":
                continue
            value = to_dict(getattr(actuator, field.name))
            if field.name.endswith("_file") and isinstance(value, str):
                value = hashlib.sha256(find_file(value).read_bytes()).hexdigest()
            each = values_by_name(value, joints, what=f"joint of {name!r}") if isinstance(value, Mapping) else None
            for i, joint in enumerate(joints):
                found[joint][field.name] = value if each is None else each[i]
    return found
