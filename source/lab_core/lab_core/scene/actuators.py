"""Actuator models: how joint targets become joint efforts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lab_core.config import MISSING


@dataclass(kw_only=True)
class ActuatorCfg:
    """A group of joints that share an actuator model. Every joint belongs to at most one group."""

    joint_names: tuple[str, ...] = MISSING
    """Names or regular expressions of the joints."""
    effort_limit: float | Mapping[str, float] = math.inf
    """Largest effort the actuator can apply [N m or N]; the effort is clipped to it."""


@dataclass(kw_only=True)
class IdealPDActuatorCfg(ActuatorCfg):
    """Position, velocity and effort control without motor limits besides the effort clip.

    effort = clip(stiffness (q* - q) + damping (v* - v) + effort*, +-effort_limit)

    Stiffness 0 and damping 0 leave a pure effort actuator. The damping belongs to the actuator: it is part of the
    effort that the solver receives, not of the solver's joint.
    """

    stiffness: float | Mapping[str, float] = 0.0
    """[N m/rad or N/m], one number or by joint name."""
    damping: float | Mapping[str, float] = 0.0
    """[N m s/rad or N s/m], one number or by joint name."""
