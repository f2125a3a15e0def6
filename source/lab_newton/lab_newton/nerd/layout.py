"""What the numbers of a robot's state mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import newton
import numpy as np

from lab_core.errors import ConfigError
from lab_newton.arrays import present
from lab_newton.robot_files import UNLIMITED

_KINDS = {newton.JointType.REVOLUTE: "hinge", newton.JointType.PRISMATIC: "slide"}


@dataclass(frozen=True, kw_only=True)
class RobotLayout:
    """Names and kinds of the coordinates of one articulation per world, in the order of Newton's arrays.

    Positions ``q`` (..., Q): of a floating root its position [m] and quaternion xyzw, then the joints [rad or m].
    Velocities ``qd`` (..., V): of a floating root the linear velocity of its centre of mass [m/s] and the angular
    velocity [rad/s], both in the world frame, then the joints [rad/s or m/s]. Joints that do not move have no numbers.
    """

    joint_names: tuple[str, ...]
    joint_kinds: tuple[str, ...]
    """``"hinge"`` or ``"slide"``."""
    continuous: tuple[bool, ...]
    """Hinges without limits, or with more than a turn between them."""
    actuated: tuple[str, ...]
    """Joints that feel an effort, in the order of :attr:`joint_names`."""
    floating: bool
    """Whether the root is free; otherwise it is fixed to the world."""
    root_com: tuple[float, float, float]
    """Centre of mass of a floating root in its own frame [m]; 0 for a fixed one."""
    gravity: tuple[float, float, float]
    """World frame [m/s^2]."""
    dt: float
    """Duration of a step of the model [s]."""

    @property
    def num_joints(self) -> int:
        """J, joints that move."""
        return len(self.joint_names)

    @property
    def num_positions(self) -> int:
        """Q, numbers of a pose."""
        return self.num_joints + 7 * self.floating

    @property
    def num_velocities(self) -> int:
        """V, numbers of a velocity."""
        return self.num_joints + 6 * self.floating

    @classmethod
    def from_model(cls, model: newton.Model, dt: float, actuated: Sequence[str] | None = None) -> RobotLayout:
        """Returns the layout of the robot in ``model``, whose worlds hold the same.

        Args:
            dt: Duration of a step [s].
            actuated: Names of the joints that feel an effort, in any order; None: all.

        Raises:
            ConfigError: a world holds something other than one articulation of hinges and slides with a free or a
                fixed root; the message names the joint.
        """
        worlds = model.world_count
        if model.articulation_count != worlds:
            raise ConfigError(
                f"A learned model moves one articulation per world, here are {model.articulation_count / worlds:g}."
            )
        _refuse_loops(model)
        num_joints, num_dofs = model.joint_count // worlds, model.joint_dof_count // worlds
        kinds = [newton.JointType(kind) for kind in present(model.joint_type).numpy()[:num_joints]]
        first_dof = present(model.joint_qd_start).numpy()
        lower, upper = (present(x).numpy()[:num_dofs] for x in (model.joint_limit_lower, model.joint_limit_upper))
        names: list[str] = []
        joint_kinds: list[str] = []
        continuous: list[bool] = []
        floating = False
        for joint, kind in enumerate(kinds):
            name = model.joint_label[joint].rsplit("/", 1)[-1]
            if kind == newton.JointType.FREE and present(model.joint_parent).numpy()[joint] == -1 and not names:
                floating = True
                _refuse_moved_frames(model, joint, name)
            elif kind in _KINDS:
                low, high = float(lower[first_dof[joint]]), float(upper[first_dof[joint]])
                names.append(name)
                joint_kinds.append(_KINDS[kind])
                wide = low < -UNLIMITED or high > UNLIMITED or high - low > 2.0 * math.pi
                continuous.append(_KINDS[kind] == "hinge" and wide)
            elif kind != newton.JointType.FIXED:
                raise ConfigError(
                    f"Joint {name!r} is of type {kind.name}. A learned model moves hinges and slides, and a root that "
                    "is free or fixed."
                )
        unknown = sorted(set(actuated or ()) - set(names))
        if unknown:
            raise ConfigError(f"Actuated joints that the robot does not have: {', '.join(unknown)}.")
        com = present(model.body_com).numpy()[present(model.joint_child).numpy()[0]] if floating else np.zeros(3)
        return cls(
            joint_names=tuple(names),
            joint_kinds=tuple(joint_kinds),
            continuous=tuple(continuous),
            actuated=tuple(name for name in names if actuated is None or name in actuated),
            floating=floating,
            root_com=_vector(com),
            gravity=_vector(present(model.gravity).numpy()[0]),
            dt=float(dt),
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RobotLayout:
        """Returns the layout that :meth:`to_dict` described."""
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**plain)

    def differences(self, other: RobotLayout) -> list[str]:
        """Returns what differs, as ``"field: own value, not other value"``; numbers up to rounding (1e-6, relative)."""
        found = []
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if not _equal(mine, theirs):
                found.append(f"{field.name}: {mine}, not {theirs}")
        return found


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return a == b


def _vector(values: Any) -> tuple[float, float, float]:
    x, y, z = (float(value) + 0.0 for value in values)  # -0 becomes 0
    return (x, y, z)


def _refuse_moved_frames(model: newton.Model, joint: int, name: str) -> None:
    """Coordinates of a free root are the pose of its body only where the joint has no frames of its own."""
    identity = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    for frames in (model.joint_X_p, model.joint_X_c):
        if not np.allclose(present(frames).numpy()[joint], identity, atol=1e-6):
            raise ConfigError(f"Root joint {name!r} is not at the origin of its body, and a learned model needs that.")


def _refuse_loops(model: newton.Model) -> None:
    coupled = {
        "mimic joints": np.any(present(model.joint_mimic_joint).numpy() >= 0),
        "loops, or other equality constraints": getattr(getattr(model, "mujoco", None), "equality_constraint_count", 0),
    }
    for what, found in coupled.items():
        if found:
            raise ConfigError(f"The robot has {what}, and a learned model moves each joint of a tree by itself.")
