"""How many constraint rows and contacts a world may need, from its model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import newton
import numpy as np

from lab_newton.arrays import present
from lab_newton.robot_files.layout import UNLIMITED

LEAST_ROWS = 64
"""Rows of the smallest models, as in MuJoCo Warp's own estimate."""
LEAST_CONTACTS = 48

_CONTACTS = {
    newton.GeoType.SPHERE: 1,
    newton.GeoType.ELLIPSOID: 1,
    newton.GeoType.CAPSULE: 2,
}
"""Contacts of a shape that lies on the ground; of the others, which have faces, four."""
_EQUALITY_ROWS = (3, 6, 1, 1)
"""Rows of MuJoCo's kinds of equalities: connect, weld, joint, tendon."""


@dataclass(frozen=True)
class Sizes:
    """Room that a world needs."""

    rows: int
    """Rows of constraints."""
    contacts: int


def estimate_sizes(model: newton.Model, cone: Literal["pyramidal", "elliptic"]) -> Sizes | None:
    """Returns what a world needs when its robots lie on the ground; None where height fields make that a guess.

    Each limit, joint with dry friction and equality has its rows. Each shape lies on the ground, and leans on one more
    shape that stands still, if there is one, with as many contacts as it can have; and as many shapes as can do so in
    pairs touch each other. In practice fewer do at once: of a Go2 that tumbles a fifth.

    Args:
        model: All worlds; what is in the first one counts.
        cone: Friction cone of contacts: 2 (d - 1) rows of a contact with d dimensions, or d.
    """
    if not model.shape_count:
        return Sizes(max(_lasting_rows(model), LEAST_ROWS), LEAST_CONTACTS)
    types, owners = present(model.shape_type).numpy(), present(model.shape_world).numpy()
    collides = (present(model.shape_flags).numpy() & int(newton.ShapeFlags.COLLIDE_SHAPES)) != 0
    ours = np.nonzero(collides & (owners <= 0))[0]
    if np.any(types[ours] == int(newton.GeoType.HFIELD)):
        return None
    still = present(model.shape_body).numpy()[ours] < 0
    dims, found = _shape_dimensions(model), [_contacts(int(kind)) for kind in types]
    largest = sorted((int(dims[shape]) for shape in ours[still]), reverse=True)[:2]
    rows, contacts = _lasting_rows(model), 0
    moving = ours[~still]
    for shape in moving:
        for ground in largest:
            contacts += found[shape]
            rows += found[shape] * _rows(max(ground, int(dims[shape])), cone)
    among = min(math.ceil(len(moving) / 2), _pairs_among(model, len(moving), int(still.sum())))
    widest = max((int(dims[shape]) for shape in moving), default=1)
    listed = _dimensions_of_pairs(model)
    rows += among * _rows(widest, cone) + sum(2 * _rows(dim, cone) for dim in listed)
    contacts += among + 2 * len(listed)
    return Sizes(max(rows, LEAST_ROWS), max(contacts, LEAST_CONTACTS))


def _contacts(kind: int) -> int:
    return _CONTACTS.get(newton.GeoType(kind), 4)


def _rows(dimensions: int, cone: str) -> int:
    return dimensions if cone == "elliptic" or dimensions == 1 else 2 * (dimensions - 1)


def _lasting_rows(model: newton.Model) -> int:
    """Returns rows of limits, dry friction, equalities and tendons: all that can act at once."""
    worlds, extra = max(model.world_count, 1), _mujoco(model)
    dofs = model.joint_dof_count // worlds
    lower, upper = (present(a).numpy()[:dofs] for a in (model.joint_limit_lower, model.joint_limit_upper))
    limits = np.count_nonzero((lower > -UNLIMITED) | (upper < UNLIMITED))
    friction = np.count_nonzero(present(model.joint_friction).numpy()[:dofs])
    kinds = _numbers(extra, "equality_constraint_type", worlds)
    equalities = sum(_EQUALITY_ROWS[int(kind)] for kind in kinds)
    tendons = np.count_nonzero(_numbers(extra, "tendon_limited", worlds))
    tendons += np.count_nonzero(_numbers(extra, "tendon_frictionloss", worlds))
    return int(limits + friction + equalities + tendons)


def _mujoco(model: newton.Model) -> Any:
    """Returns what a model holds for MuJoCo alone; Newton makes that when it runs."""
    return model.mujoco  # pyright: ignore[reportAttributeAccessIssue]


def _numbers(extra: object, name: str, worlds: int) -> np.ndarray:
    """Returns an attribute of the first world's part; empty where the model has none."""
    array = getattr(extra, name, None)
    return np.zeros(0) if array is None else array.numpy()[: len(array) // worlds]


def _shape_dimensions(model: newton.Model) -> np.ndarray:
    """Returns the dimensions of contacts of each shape (1, 3, 4 or 6)."""
    stated = getattr(_mujoco(model), "condim", None)  # absent where no shape states any
    return np.full(model.shape_count, 3) if stated is None else stated.numpy()


def _dimensions_of_pairs(model: newton.Model) -> list[int]:
    return [int(dim) for dim in _numbers(_mujoco(model), "pair_condim", max(model.world_count, 1))]


def _pairs_among(model: newton.Model, moving: int, still: int) -> int:
    """Returns how many pairs of moving shapes of a world may touch; an upper bound, where some pass through what
    stands still."""
    return max(0, model.shape_contact_pair_count // max(model.world_count, 1) - moving * still)
