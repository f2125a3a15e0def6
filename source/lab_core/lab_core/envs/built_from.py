"""What an entity's constants were built from, so that a restored state does not undo edited settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from lab_core.config import config_hash
from lab_core.errors import ConfigError
from lab_core.managers import EventTermCfg
from lab_core.physics import PhysicsBackend
from lab_core.scene import EntityCfg, EntityData, Role

_AT_START = ("prestartup", "startup")


def built_from(entities: Mapping[str, EntityCfg], events: Mapping[str, EventTermCfg | None]) -> dict[str, str]:
    """Returns by entity a hash of the settings that its constants follow from: its own ones and startup events.

    Empty where these have no text form, as with a lambda: what cannot be compared counts as unchanged.
    """
    early = {name: event for name, event in events.items() if event is not None and event.mode in _AT_START}
    try:
        return {name: config_hash([entity, early]) for name, entity in entities.items()}
    except ConfigError:
        return {}


@contextmanager
def constants_kept(physics: PhysicsBackend, names: list[str]) -> Iterator[None]:
    """Inside, a state may be loaded; afterwards default state, limits and properties of these entities are as before.

    The engine is told of those that it must know.
    """
    kept = {name: _constants(physics.entities[name]) for name in names}
    yield
    for name, buffers in kept.items():
        data = physics.entities[name]
        changed = [field for field, value in buffers.items() if not torch.equal(getattr(data, field), value)]
        for field in changed:
            getattr(data, field).copy_(buffers[field])
        if told := [field for field in changed if field in data.notices()]:
            physics.notify(name, *told)
        if "root_link_pose_w" in changed:
            physics.mark_written(torch.ones_like(physics.written))
            physics.forward()


def _constants(data: EntityData) -> dict[str, torch.Tensor]:
    names = [*data.buffers(Role.DEFAULT, Role.LIMIT, Role.PROPERTY)]
    if data.fixed_base:  # it stands where it was built, after resets too
        names.append("root_link_pose_w")
    return {name: getattr(data, name).clone() for name in names}
