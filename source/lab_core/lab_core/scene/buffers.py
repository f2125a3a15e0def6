"""Declaring the buffers of a kind of entity: one line each, from which all that holds or reads them is derived."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal, overload

import torch


class Kind(Enum):
    """What one element of a buffer is, and the shape that it adds."""

    NUMBER = ("a number", ())
    ANGLE = ("an angle from -pi to pi", ())
    RANGE = ("lower and upper", (2,))
    VECTOR = ("x, y, z", (3,))
    DIRECTION = ("a unit vector", (3,))
    SPATIAL = ("linear, then angular", (6,))
    POSE = ("position, then quaternion xyzw", (7,))
    MATRIX = ("a matrix", (3, 3))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one element."""
        return self.value[1]


class Role(Enum):
    """Who writes a buffer, and when."""

    STATE = "authored by environments through the entity's write methods, filled by every physics step"
    DERIVED = "follows from the state: filled by every physics step and by forward()"
    TARGET = "set by environments for the next step"
    DEFAULT = "what a reset puts into state and targets"
    LIMIT = "set when the entity is built"
    PROPERTY = "set when the entity is built; may be randomised"
    DISTURBANCE = "set by environments, acts until the environment is reset"


class Notice(Enum):
    """What an engine is told when a property changes."""

    BODY_INERTIA = "mass, inertia or centre of mass of bodies"
    BODY_SURFACE = "friction of bodies"
    JOINT_INERTIA = "armature of joints"
    JOINT_FORCE = "dry friction in joints"


class Buffer:
    """Declares a tensor (N, ...) of an entity's data.

    On the class it is the declaration, on an instance the tensor::

        ArticulationData.joint_pos.unit  # "rad or m"
        data.joint_pos                   # torch.Tensor (N, J)

    Args:
        role: Who writes it.
        per: What has a row of its own besides the environment: ``"joint"`` or ``"body"``; ``"root"``: nothing.
        kind: What one element is.
        unit: SI unit of its numbers.
        reset: What a reset to the default state puts there: the name of another buffer, or a number. A pose is then
            moved to the environment's origin. None: a reset leaves it alone.
        key: Its name in states of a scene and in files, for those that together are the state.
        notice: What the engine must be told when it changes, if it must.
    """

    name: str

    def __init__(
        self,
        role: Role,
        per: Literal["root", "joint", "body"],
        kind: Kind,
        unit: str,
        *,
        reset: str | float | None = None,
        key: str | None = None,
        notice: Notice | None = None,
    ) -> None:
        self.role = role
        self.per = per
        self.kind = kind
        self.unit = unit
        self.reset = reset
        self.key = key
        self.notice = notice

    @property
    def ndim(self) -> int:
        """Number of axes of the tensor before those of an element."""
        return 1 if self.per == "root" else 2

    def row_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Returns the shape of one environment's row, where ``sizes`` are the numbers of joints and of bodies."""
        return (*(() if self.per == "root" else (sizes[self.per],)), *self.kind.shape)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Buffer: ...

    @overload
    def __get__(self, instance: object, owner: type) -> torch.Tensor: ...

    def __get__(self, instance: object | None, owner: type) -> Buffer | torch.Tensor:
        if instance is None:
            return self
        # A tensor that is there lies in the instance's own dictionary, which Python asks first.
        raise AttributeError(f"{owner.__name__}.{self.name} has not been allocated.")
