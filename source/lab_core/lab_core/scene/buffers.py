"""Declaring the buffers of a kind of entity: one line each, from which all that holds or reads them is derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal, overload

import torch

from lab_core.masks import masked_copy_
from lab_core.state import Stateful


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


class EntityData(Stateful):
    """Tensors of one entity in N environments, as its class declares them by :class:`Buffer`.

    Every tensor is contiguous and is written in place for the life of the backend. World frame: z up; quaternions
    xyzw. ``_w``: world frame; ``_b``: root-link frame. ``link``: the body's frame origin; ``com``: its centre of mass.
    Units: m, rad, s, kg, N, N m.
    """

    warp: Any = None
    """The same buffers as Warp arrays under the same names, where the backend is built on Warp."""

    def __init__(
        self,
        num_envs: int,
        joint_names: Sequence[str],
        body_names: Sequence[str],
        fixed_base: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        """Allocates zeros, and identity quaternions.

        Args:
            num_envs: N.
            joint_names: Names of the J joints, in the order of every buffer; a kind without joints has none.
            body_names: Names of the B bodies, likewise; the first is the root.
            fixed_base: Whether the root is fixed to the world: it then has no state of its own.
            device: Where the tensors lie.
        """
        self.joint_names = tuple(joint_names)
        self.body_names = tuple(body_names)
        self.fixed_base = fixed_base
        sizes = {"joint": self.num_joints, "body": self.num_bodies}
        for name, buffer in self.buffers().items():
            tensor = torch.zeros(num_envs, *buffer.row_shape(sizes), device=device)
            if buffer.kind is Kind.POSE:
                tensor[..., 6] = 1.0
            setattr(self, name, tensor)

    @property
    def num_joints(self) -> int:
        """J."""
        return len(self.joint_names)

    @property
    def num_bodies(self) -> int:
        """B."""
        return len(self.body_names)

    @classmethod
    def buffers(cls, *roles: Role) -> dict[str, Buffer]:
        """Returns the declarations of the buffers by name, those of base classes first; all, or those of ``roles``."""
        return {
            name: value
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, Buffer) and (not roles or value.role in roles)
        }

    @classmethod
    def state_keys(cls) -> dict[str, Buffer]:
        """Returns the buffers that together are the state, by their names in states of a scene and in files."""
        return {buffer.key: buffer for buffer in cls.buffers().values() if buffer.key is not None}

    def write_default_state(self, env_origins: torch.Tensor, mask: torch.Tensor) -> None:
        """Puts the environments of ``mask`` (N,) bool into the default state at their origins (N, 3) [m].

        Clears targets and efforts. This is the meaning of ``reset`` in every declaration; kernels that do the same
        are tested against it.
        """
        for name, buffer in self.buffers().items():
            value = buffer.reset
            if value is None or (buffer.per == "root" and self.fixed_base):
                continue
            if isinstance(value, str):
                value = getattr(self, value)
                if buffer.kind is Kind.POSE:
                    value = moved(value, env_origins)
            masked_copy_(getattr(self, name), value, mask)


def moved(pose: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Returns a copy of poses (N, 7) with positions moved by ``offset`` (N, 3) [m]."""
    pose = pose.clone()
    pose[:, :3] += offset
    return pose
