"""The actuators that a model file describes: what the scene does with them."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np

from lab_core.errors import ConfigError
from lab_core.scene import FileActuatorCfg, IdealPDActuatorCfg
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


def actuators_of_file(
    entity: str, group: str, cfg: FileActuatorCfg, imported: ImportedFile, joints: Collection[str]
) -> IdealPDActuatorCfg:
    """Returns the actuators of the file that drive ``joints``, as one group of servos.

    MuJoCo computes f = gain u + b0 + b1 l + b2 l' of the control u and the length l = gear q, and the joint feels
    gear f. Hence stiffness = -gear^2 b1 and damping = -gear^2 b2 for targets of the joint.

    Raises:
        ConfigError: the file has no such actuator, or one that is no motor and no servo; the message names it.
    """
    if imported.file is None or imported.names is None:
        raise ConfigError(f"Entity {entity!r}: actuators[{group!r}] takes over those of an MJCF file, this is none.")
    servos: dict[str, tuple[float, float, float]] = {}
    for actuator in range(imported.file.model.nu):
        joint = joint_of(imported, actuator)
        if joint is None or joint not in joints:
            continue
        what = f"Entity {entity!r}: actuator {imported.names.of('actuator', actuator)!r} of the model file"
        if joint in servos:
            raise ConfigError(f"{what} is the second one of joint {joint!r}. Set a group of your own for that joint.")
        servos[joint] = _servo(what, imported.file.model, actuator)
    if not servos:
        raise ConfigError(
            f"Entity {entity!r}: actuators[{group!r}] takes over those of the model file, and that drives none of "
            f"{', '.join(joints) or 'the joints that are left'}."
        )
    return IdealPDActuatorCfg(
        joint_names=tuple(servos),
        stiffness={joint: servo[0] for joint, servo in servos.items()},
        damping={joint: servo[1] for joint, servo in servos.items()},
        effort_limit={joint: min(servo[2], _limit(cfg, joint)) for joint, servo in servos.items()},
        min_delay=cfg.min_delay,
        max_delay=cfg.max_delay,
    )


def _limit(cfg: FileActuatorCfg, joint: str) -> float:
    if isinstance(cfg.effort_limit, float | int):
        return float(cfg.effort_limit)
    return float(cfg.effort_limit.get(joint, np.inf))


def _servo(what: str, model: Any, actuator: int) -> tuple[float, float, float]:
    """Returns stiffness, damping and effort limit of an actuator, as its joint feels them."""
    gear, gain = float(model.actuator_gear[actuator, 0]), float(model.actuator_gainprm[actuator, 0])
    offset, position, velocity = (float(value) for value in model.actuator_biasprm[actuator, :3])
    if model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE:
        offset = position = velocity = 0.0
    biases = (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)
    is_simple = (
        model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
        and model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE
        and mujoco.mjtBias(model.actuator_biastype[actuator]) in biases
        and offset == 0.0
        and not model.actuator_delay[actuator]
    )
    is_servo = gain == -position if position else (gain == -velocity or not velocity)
    if not (is_simple and is_servo and position <= 0.0 and velocity <= 0.0):
        raise ConfigError(
            f"{what} is no motor and no position or velocity servo without activation, bias and delay. Set a group of "
            "your own for its joint."
        )
    limit = np.inf
    if model.actuator_forcelimited[actuator]:
        limit = abs(gear) * _symmetric(what, "forcerange", model.actuator_forcerange[actuator])
    if model.actuator_ctrllimited[actuator] and not position and not velocity:
        limit = min(limit, abs(gear * gain) * _symmetric(what, "ctrlrange", model.actuator_ctrlrange[actuator]))
    return -(gear**2) * position + 0.0, -(gear**2) * velocity + 0.0, float(limit)


def _symmetric(what: str, name: str, limits: np.ndarray) -> float:
    low, high = limits.tolist()
    if low != -high:
        raise ConfigError(
            f"{what} has the {name} {low:g} to {high:g}; limits here are the same to both sides. Set a group of your "
            "own for its joint."
        )
    return high
