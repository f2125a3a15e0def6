"""Filling an articulation's property buffers from its configuration."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence

import torch

from lab_core.names import UnknownNameError, match_names, values_by_name
from lab_core.scene.actuators import ActuatorCfg
from lab_core.scene.articulation import ArticulationCfg
from lab_core.scene.articulation_data import ArticulationData
from lab_core.scene.root_state import fill_root_default

_ROUNDING = 1e-4
"""How far a position may be outside its limits, which files round [rad or m]."""


def actuated_joints(
    name: str, actuators: Mapping[str, ActuatorCfg], joint_names: tuple[str, ...]
) -> dict[str, list[int]]:
    """Returns actuator group -> joint indices, for the entity ``name``.

    Raises:
        UnknownNameError: a pattern matches no joint, or two groups claim the same joint.
    """
    groups: dict[str, list[int]] = {}
    owner: dict[int, str] = {}
    for group, actuator in actuators.items():
        groups[group] = match_names(actuator.joint_names, joint_names, what=f"joint of {name!r}")
        for i in groups[group]:
            if i in owner:
                raise UnknownNameError(
                    f"Joint {joint_names[i]!r} of {name!r} is in two actuator groups: {owner[i]!r} and {group!r}."
                )
            owner[i] = group
    return groups


def fill_defaults(name: str, cfg: ArticulationCfg, data: ArticulationData, following: Sequence[int] = ()) -> None:
    """Writes default state, soft limits, gains and motor limits of ``cfg`` into ``data``.

    The backend has filled ``joint_pos_limits`` before. Joints without an actuator get gains 0 and effort limit 0.
    A default position outside its limits becomes the nearest limit, with a warning that lists all such joints; not
    those of joints that are ``following`` others, which the backend puts to where these demand.
    For the root see :func:`lab_core.scene.root_state.fill_root_default`.

    Raises:
        UnknownNameError: a name in the configuration does not exist.
        ConfigError: an actuator has an impossible value, or the root no orientation.
    """
    init = cfg.init_state
    what = f"joint of {name!r}"
    data.default_joint_pos.copy_(torch.tensor(values_by_name(init.joint_pos, data.joint_names, what=what)))
    data.default_joint_vel.copy_(torch.tensor(values_by_name(init.joint_vel, data.joint_names, what=what)))
    fill_root_default(name, init, data)
    _fill_limits(name, cfg, data, following)
    for buffer, value in (
        (data.joint_stiffness, 0.0),
        (data.joint_damping, 0.0),
        (data.joint_effort_limits, 0.0),
        (data.joint_saturation_efforts, math.inf),
        (data.joint_velocity_limits, math.inf),
    ):
        buffer.fill_(value)
    for group, ids in actuated_joints(name, cfg.actuators, data.joint_names).items():
        actuator = cfg.actuators[group]
        actuator.check(f"Actuator group {group!r} of {name!r}")
        names = [data.joint_names[i] for i in ids]
        for field, values in actuator.joint_parameters().items():
            buffer = getattr(data, field)
            buffer[:, ids] = torch.tensor(values_by_name(values, names, what=what), device=buffer.device)


def _fill_limits(name: str, cfg: ArticulationCfg, data: ArticulationData, following: Sequence[int]) -> None:
    lower, upper = data.joint_pos_limits.unbind(-1)
    _take_into_limits(name, data, lower, upper, following)
    middle, half = (lower + upper) / 2, (upper - lower) / 2 * cfg.soft_joint_pos_limit_factor
    limited = torch.isfinite(middle) & torch.isfinite(half)
    data.soft_joint_pos_limits[..., 0] = torch.where(limited, middle - half, lower)
    data.soft_joint_pos_limits[..., 1] = torch.where(limited, middle + half, upper)


def _take_into_limits(
    name: str, data: ArticulationData, lower: torch.Tensor, upper: torch.Tensor, following: Sequence[int]
) -> None:
    """Takes default positions to the nearest limit, and warns of those that move by more than rounding."""
    asked = data.default_joint_pos.clone()
    data.default_joint_pos.clamp_(lower, upper)
    data.default_joint_pos[:, list(following)] = asked[:, list(following)]
    moved = ((asked - data.default_joint_pos).abs() > _ROUNDING)[0].nonzero().flatten().tolist()
    if not moved:
        return
    listed = ", ".join(
        f"{data.joint_names[joint]!r} from {float(asked[0, joint]):g} to {float(data.default_joint_pos[0, joint]):g}"
        for joint in moved
    )
    warnings.warn(
        f"Entity {name!r}: default positions outside their limits were taken to the nearest one: {listed}. Set them in "
        "init_state.joint_pos.",
        stacklevel=3,
    )
