"""Poses of articulations that are drawn beside the simulated ones and are no part of the physics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lab_core.errors import LabError, unknown_name_message

if TYPE_CHECKING:
    from lab_core.scene import EntityData


@dataclass(frozen=True, kw_only=True)
class Ghost:
    """Where an entity is drawn once more in every environment, for instance where a motion wants it to be."""

    entity: str
    """Name of the entity whose shape it has."""
    root_pose_w: torch.Tensor
    """(N, 7) pose of the root link in the world: position [m], then quaternion xyzw, as
    :attr:`~lab_core.scene.EntityData.root_link_pose_w`. A root that is fixed in its model file stays where it is."""
    joint_pos: torch.Tensor | None = None
    """(N, J) positions of the entity's joints, in its order [rad or m]; None for an entity without joints."""


GhostSource = Callable[[], Sequence[Ghost]]
"""Gives the ghosts to draw now, in the same order each time."""


def collect_ghosts(sources: Iterable[GhostSource], entities: Mapping[str, EntityData], num_envs: int) -> list[Ghost]:
    """Returns the ghosts of all ``sources``, which is what a backend draws.

    Raises:
        LabError: one is of no entity, or its pose has another shape than that entity's in ``num_envs`` environments.
    """
    ghosts = [ghost for source in sources for ghost in source()]
    for ghost in ghosts:
        if ghost.entity not in entities:
            raise LabError(f"A ghost is of no entity here: {unknown_name_message('entity', ghost.entity, entities)}")
        expected = {"root_pose_w": (num_envs, 7)}
        if joints := len(entities[ghost.entity].joint_names):
            expected["joint_pos"] = (num_envs, joints)
        for field, shape in expected.items():
            given = getattr(ghost, field)
            found = None if given is None else tuple(given.shape)
            if found != shape:
                raise LabError(f"{field} of a ghost of {ghost.entity!r} must have the shape {shape}, got {found}.")
    return ghosts
