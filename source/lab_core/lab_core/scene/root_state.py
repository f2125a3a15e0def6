"""The default state of a root, which every kind of entity has."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lab_core.config import Settings
from lab_core.errors import ConfigError
from lab_core.scene.entity_data import EntityData

_UNIT = 1e-3
"""How far the norm of a quaternion may be from 1: files and people round."""


@dataclass(kw_only=True)
class RootStateCfg(Settings):
    """State of a root after a reset, before any reset event."""

    pos: tuple[float, float, float] | None = None
    """Root-link position [m], relative to the environment's origin. None: where the model file puts it, if there is
    one, else at the origin."""
    quat: tuple[float, float, float, float] | None = None
    """Root-link orientation, xyzw. None: as in the model file, if there is one, else not turned."""
    lin_vel: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity of the root's centre of mass, world frame [m/s]."""
    ang_vel: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """World frame [rad/s]."""


def fill_root_default(name: str, cfg: RootStateCfg, data: EntityData) -> None:
    """Writes the default root state of ``cfg`` into the buffers ``data`` of the entity ``name``.

    A pose that it does not state is 0 here: a backend that reads model files states it before.

    Raises:
        ConfigError: ``quat`` is no unit quaternion.
    """
    position = (0.0, 0.0, 0.0) if cfg.pos is None else cfg.pos
    orientation = (0.0, 0.0, 0.0, 1.0) if cfg.quat is None else cfg.quat
    norm = math.hypot(*orientation)
    if not abs(norm - 1.0) <= _UNIT:
        raise ConfigError(
            f"init_state.quat of {name!r} must be a unit quaternion, {orientation} has the norm {norm:g}."
        )
    data.default_root_pose.copy_(torch.tensor((*position, *(x / norm for x in orientation))))
    data.default_root_vel.copy_(torch.tensor((*cfg.lin_vel, *cfg.ang_vel)))
