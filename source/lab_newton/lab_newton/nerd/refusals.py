"""What a learned model cannot follow, said before it moves anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import newton
import numpy as np

from lab_core.errors import ConfigError
from lab_core.physics import differences
from lab_core.sensors import GEOMETRY_SIZE
from lab_newton.arrays import present
from lab_newton.contact_set import ContactSearch
from lab_newton.nerd.layout import RobotLayout
from lab_newton.nerd.model import NeRDModel

_MOST = 8
"""Differences that a message names."""


def check_robot(what: str, learned: RobotLayout, found: RobotLayout) -> None:
    """Refuses a robot or a timing other than those that a model learned.

    Args:
        what: What messages call the model.
        learned: Layout of the model.
        found: Layout of the robot that it is to move.

    Raises:
        ConfigError: they differ; the message names every field.
    """
    if changed := found.differences(learned):
        raise ConfigError(f"{what} learned other physics: {'; '.join(changed)} as learned.")


def check_fingerprint(what: str, learned: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Refuses physics other than those that a model learned; versions of packages may differ, the model is the same.

    Actuators may be any of those that were recorded: a model is told their efforts.

    Args:
        what: What messages call the model.
        learned: Fingerprint of the physics that it learned.
        found: Fingerprint of those that it is to stand for.

    Raises:
        ConfigError: they differ, or nobody knows what it learned; the message names the fields.
    """
    if not learned:
        raise ConfigError(f"{what} does not say what physics it learned: fit it again, to recordings that do.")
    drives = [learned.get("actuators", {}), *learned.get("other_actuators", ())]
    own = found.get("actuators", {})
    drive = next((drive for drive in drives if not differences(own, drive)), drives[0])
    other = {"versions", "other_actuators"}
    expected = {**{name: part for name, part in learned.items() if name not in other}, "actuators": drive}
    changed = differences(
        {"actuators": {}, **{name: part for name, part in found.items() if name not in other}}, expected
    )
    if changed:
        rest = f"; and {len(changed) - _MOST} more" if len(changed) > _MOST else ""
        raise ConfigError(f"{what} learned other physics: {'; '.join(changed[:_MOST])}{rest}.")


def check_ground(what: str, fingerprint: Mapping[str, Any]) -> None:
    """Refuses ground of several materials, for a model that sees contacts: it is not told which one it touches.

    Raises:
        ConfigError: shapes of the ground differ; the message names the fields.
    """
    first, *others = fingerprint["materials"]["ground"] or [{}]
    changed = {field: other[field] for other in others for field in first if other[field] != first[field]}
    if changed:
        listed = ", ".join(f"{field} {first[field]} and {value}" for field, value in changed.items())
        raise ConfigError(f"{what} knows one material of the ground, and shapes of it differ: {listed}.")


def check_step(what: str, learned: RobotLayout, dt: float) -> None:
    """Refuses a step of another duration ``dt`` [s] than the model learned.

    Raises:
        ConfigError: it is another one.
    """
    if not math.isclose(dt, learned.dt, rel_tol=1e-6):
        raise ConfigError(f"{what} learned steps of {learned.dt:.9g} s, and cannot make one of {dt:.9g} s.")


def check_drives(what: str, model: newton.Model) -> None:
    """Refuses drives and actuators inside the solver: their efforts are none that a model sees.

    Raises:
        ConfigError: the message names the joints.
    """
    worlds = model.world_count
    num_joints = model.joint_count // worlds
    first_dof = [*present(model.joint_qd_start).numpy()[:num_joints], model.joint_dof_count // worlds]
    gains = np.stack([present(gain).numpy() for gain in (model.joint_target_ke, model.joint_target_kd)])
    driven = [
        model.joint_label[joint].rsplit("/", 1)[-1]
        for joint in range(num_joints)
        if np.any(gains[:, first_dof[joint] : first_dof[joint + 1]])
    ]
    if driven:
        raise ConfigError(
            f"{what} moves joints by their efforts alone, and the model has drives of its own (joint_target_ke, "
            f"joint_target_kd) on: {', '.join(driven)}. Let an actuator write joint_f instead."
        )
    if count := model.custom_frequency_counts.get("mujoco:actuator", 0):
        raise ConfigError(
            f"{what} moves joints by their efforts alone, and the model has {count // worlds} actuators of MuJoCo. Let "
            "an actuator write joint_f instead."
        )


def find_search(what: str, learned: NeRDModel) -> ContactSearch:
    """Returns which contacts a model sees.

    Raises:
        ConfigError: it looks at others than there are, or does not say at which.
    """
    channels = learned.network.contact_channels
    if learned.search is None or channels != GEOMETRY_SIZE:
        raise ConfigError(
            f"{what} looks at {channels} numbers of each contact within {learned.search}, and a contact set has "
            f"{GEOMETRY_SIZE}, within a distance that the model says."
        )
    return learned.search


def layout_like(learned: RobotLayout, model: newton.Model, dt: float) -> RobotLayout:
    """Returns the layout of ``model``, taking those joints for actuated that were when a model learned."""
    found = RobotLayout.from_model(model, dt)
    return replace(found, actuated=tuple(name for name in found.actuated if name in learned.actuated))
