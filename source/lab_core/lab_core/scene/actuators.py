"""Actuator models: how joint targets become joint efforts.

Every limit here is one that the actuator model clips to. The solver clips nothing: the effort that a model returns is
the effort that acts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from lab_core.config import MISSING, Finite, Settings
from lab_core.errors import ConfigError

PerJoint = float | Mapping[str, float]
Gain = Finite | Mapping[str, Finite]
"""One number, or numbers by joint name or regular expression."""


@dataclass(kw_only=True)
class ActuatorCfg(Settings):
    """A group of joints that share an actuator model. Every joint belongs to at most one group.

    A model is a subclass. What all engines need to know of it, its methods say; an engine that can compute it has a
    part of its own for the class.

    Any model may receive its targets late: position, velocity and effort targets together act ``lag`` physics steps
    after they were set. The lag is drawn for every environment when it is reset, uniformly from ``min_delay`` to
    ``max_delay``, both included, and shared by the group. From the reset until the first delayed target arrives the
    targets of the reset hold, which are the default positions.
    """

    joint_names: tuple[str, ...] = MISSING
    """Names or regular expressions of the joints."""
    effort_limit: PerJoint = math.inf
    """Largest effort the actuator can apply at any speed [N m or N]."""
    min_delay: int = 0
    """Shortest lag [physics steps]."""
    max_delay: int = 0
    """Longest lag [physics steps]."""

    def joint_parameters(self) -> dict[str, PerJoint]:
        """Returns what the model keeps per joint: names of buffers of an articulation's data, and their values.

        These are what is in effect in every step, of each environment, and what events may draw. Joints whose actuator
        does not name a buffer have there what leaves an effort as it is: no gains, and no limits of a motor.
        """
        return {"joint_effort_limits": self.effort_limit}

    def limits_by_position(self) -> tuple[tuple[float, float], ...]:
        """Returns points (position, effort limit) by rising position that clip efforts as well; empty for none."""
        return ()

    def check(self, what: str) -> None:
        """Checks the values.

        Args:
            what: What the group is called in messages.

        Raises:
            ConfigError: a value is impossible.
        """
        if not 0 <= self.min_delay <= self.max_delay:
            raise ConfigError(
                f"{what}: delays must be 0 <= min_delay <= max_delay, got {self.min_delay} and {self.max_delay}."
            )
        require_number(what, "effort_limit", self.effort_limit, at_least=0.0)


@dataclass(kw_only=True)
class IdealPDActuatorCfg(ActuatorCfg):
    """Position, velocity and effort control without motor limits besides the effort clip.

    effort = clip(stiffness (q* - q) + damping (v* - v) + effort*, +-effort_limit)

    Stiffness 0 and damping 0 leave a pure effort actuator. The damping belongs to the actuator: it is part of the
    effort that the solver receives, not of the solver's joint.
    """

    stiffness: Gain = 0.0
    """[N m/rad or N/m], one number or by joint name."""
    damping: Gain = 0.0
    """[N m s/rad or N s/m], one number or by joint name."""

    def joint_parameters(self) -> dict[str, PerJoint]:
        return super().joint_parameters() | {"joint_stiffness": self.stiffness, "joint_damping": self.damping}

    def check(self, what: str) -> None:
        super().check(what)
        require_number(what, "stiffness", self.stiffness, at_least=0.0)
        require_number(what, "damping", self.damping, at_least=0.0)


@dataclass(kw_only=True)
class MotorCurveCfg(ActuatorCfg):
    """Clips to the straight torque-speed line of a DC motor in all four quadrants; see :func:`clip_to_motor_curve`."""

    saturation_effort: PerJoint = MISSING
    """Stall effort: what the motor could apply at standstill [N m or N]. ``effort_limit`` is what it may apply."""
    velocity_limit: PerJoint = MISSING
    """No-load speed: where the effort in the direction of motion falls to 0 [rad/s or m/s]. The joint can be driven
    faster from outside; the motor then brakes."""

    def joint_parameters(self) -> dict[str, PerJoint]:
        return super().joint_parameters() | {
            "joint_saturation_efforts": self.saturation_effort,
            "joint_velocity_limits": self.velocity_limit,
        }

    def check(self, what: str) -> None:
        super().check(what)
        require_number(what, "saturation_effort", self.saturation_effort, above=0.0)
        require_number(what, "velocity_limit", self.velocity_limit, above=0.0)


@dataclass(kw_only=True)
class DCMotorActuatorCfg(MotorCurveCfg, IdealPDActuatorCfg):
    """The PD law of :class:`IdealPDActuatorCfg`, clipped to the torque-speed line of a DC motor."""


@dataclass(kw_only=True)
class RemotizedPDActuatorCfg(IdealPDActuatorCfg):
    """The PD law of :class:`IdealPDActuatorCfg` with an effort limit that depends on the joint's position.

    For joints that a motor drives through a linkage, whose ratio changes with the angle. ``effort_limit`` holds too.
    """

    effort_limit_by_position: tuple[tuple[float, float], ...] = MISSING
    """Points (position [rad or m], effort limit [N m or N]) by rising position. Linear between them, constant beyond
    the first and the last."""

    def limits_by_position(self) -> tuple[tuple[float, float], ...]:
        return self.effort_limit_by_position

    def check(self, what: str) -> None:
        super().check(what)
        positions = [point[0] for point in self.effort_limit_by_position]
        if not positions or any(a >= b for a, b in zip(positions, positions[1:], strict=False)):
            raise ConfigError(f"{what}: effort_limit_by_position needs points by rising position, got {positions}.")
        for _, limit in self.effort_limit_by_position:
            require_number(what, "effort_limit_by_position", limit, at_least=0.0)


@dataclass(kw_only=True)
class LSTMActuatorCfg(MotorCurveCfg):
    """A recurrent network that was fitted to a real drive, clipped to the torque-speed line of a DC motor.

    effort = clip(network(q* - q, v) + effort*). The network contains the drive's own gains and its velocity loop, so
    that stiffness and damping do not exist and velocity targets have no effect. Its memory starts at 0 at every reset.
    """

    network_file: str = MISSING
    """TorchScript file with an ``lstm`` and a ``linear`` layer, and the factors ``in_scale`` and ``out_scale``. A path,
    which may contain ``$NAME`` of an environment variable, or ``package:path/inside/package``."""


@dataclass(kw_only=True)
class FileActuatorCfg(ActuatorCfg):
    """The actuators of the model file's ``<actuator>`` section: motors, and position and velocity servos.

    When the robot is built, the group becomes an :class:`IdealPDActuatorCfg` of the joints that the file drives and no
    other group does, with gear, gains and ranges of the file. Targets are of the joint: effort, position or velocity,
    not MuJoCo's control, which a gear multiplies.
    """

    joint_names: tuple[str, ...] = (".*",)
    """Names or regular expressions of the joints; of those that they match, the ones that the file drives."""

    def joint_parameters(self) -> dict[str, PerJoint]:
        raise ConfigError("The actuators of a model file are known once a backend that reads such files built it.")


def clip_to_motor_curve(
    effort: torch.Tensor,
    velocity: torch.Tensor,
    effort_limit: torch.Tensor,
    saturation_effort: torch.Tensor,
    velocity_limit: torch.Tensor,
) -> torch.Tensor:
    """Clips efforts to what a DC motor can apply at a velocity; all tensors broadcast.

    With s = saturation_effort, l = effort_limit, v0 = velocity_limit, and v clipped to +-v0 (1 + l / s):
    effort in [max(s (-1 - v / v0), -l), min(s (1 - v / v0), l)]. Infinite s and v0 leave the clip to +-l.
    """
    corner = velocity_limit * (1.0 + torch.nan_to_num(effort_limit / saturation_effort, nan=0.0))
    slope = velocity.clamp(-corner, corner) / velocity_limit
    high = torch.minimum(saturation_effort * (1.0 - slope), effort_limit)
    low = torch.maximum(saturation_effort * (-1.0 - slope), -effort_limit)
    return effort.clamp(low, high)


def require_number(
    what: str, field: str, value: PerJoint, at_least: float | None = None, above: float | None = None
) -> None:
    """Checks a setting of an actuator, every number of it.

    Args:
        what: What the group is called in messages.
        field: Name of the setting.
        value: The setting.
        at_least: Smallest number that is allowed.
        above: The number must be finite and greater than this.

    Raises:
        ConfigError: a number is not allowed.
    """
    for number in value.values() if isinstance(value, Mapping) else (value,):
        if at_least is not None and not number >= at_least:
            raise ConfigError(f"{what}: {field} must be at least {at_least:g}, got {number!r}.")
        if above is not None and not (above < number < math.inf):
            raise ConfigError(f"{what}: {field} must be finite and above {above:g}, got {number!r}.")
