"""Warp arrays over the memory of torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
import warp as wp

from lab_core.managers import SceneEntityCfg, Selection
from lab_core.scene import Buffer, EntityData, Kind

_ArraysT = TypeVar("_ArraysT")
DTYPES: dict[Kind, Any] = {
    Kind.NUMBER: wp.float32,
    Kind.ANGLE: wp.float32,
    Kind.RANGE: wp.vec2,
    Kind.VECTOR: wp.vec3,
    Kind.DIRECTION: wp.vec3,
    Kind.SPATIAL: wp.spatial_vector,
    Kind.POSE: wp.transform,
    Kind.MATRIX: wp.mat33,
}
"""Kind of an element of a buffer -> Warp's type of it."""


class Arrays:
    """Warp arrays as attributes, by the names of the tensors whose memory they share; for names that a table gives."""

    def __init__(self, arrays: Mapping[str, wp.array]) -> None:
        vars(self).update(arrays)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> wp.array: ...


class Shared(NamedTuple):
    """One buffer, as kernels and as torch code see it: a mask of environments, a slot of the log."""

    warp: wp.array
    torch: torch.Tensor


def shared(tensor: torch.Tensor, dtype: Any = None) -> Shared:
    """Returns a buffer in both forms."""
    return Shared(wp.from_torch(tensor, dtype=dtype), tensor)


def share_entity(data: EntityData) -> None:
    """Sets ``data.warp`` to Warp arrays over all its buffers: vectors, poses and ranges as Warp's own types."""
    data.warp = Arrays(
        {name: wp.from_torch(getattr(data, name), dtype=DTYPES[b.kind]) for name, b in data.buffers().items()}
    )


def array_struct(name: str, module: str, buffers: Mapping[str, Buffer]) -> Any:
    """Makes the Warp struct whose fields are arrays of ``buffers``, for kernels.

    Args:
        name: Name of the struct.
        module: Name of the Python module that holds it, ``__name__``.
        buffers: See :meth:`EntityData.buffers`.
    """
    fields = {field: wp.array(dtype=DTYPES[b.kind], ndim=b.ndim) for field, b in buffers.items()}
    return wp.struct(type(name, (), {"__annotations__": fields, "__module__": module}))


def fill_struct(struct: Any, data: EntityData) -> Any:
    """Returns an instance of a struct of :func:`array_struct` over the buffers of ``data``, which is shared.

    Buffers that its kind does not have, such as those of joints, are empty arrays there.
    """
    arrays = struct()
    for name in struct.vars.keys() & data.buffers().keys():
        setattr(arrays, name, getattr(data.warp, name))
    return arrays


def share(arrays: type[_ArraysT], owner: object) -> _ArraysT:
    """Returns a dataclass of Warp arrays over the tensors of ``owner`` of the same names, private or not."""
    tensors = {field.name: buffer_of(owner, field.name) for field in fields(arrays)}  # pyright: ignore[reportArgumentType]
    return arrays(**{name: wp.from_torch(tensor) for name, tensor in tensors.items()})


def buffer_of(owner: object, name: str) -> torch.Tensor:
    """Returns the attribute ``name`` of ``owner``, or the private one of that name."""
    private = vars(owner).get(f"_{name}")
    return getattr(owner, name) if private is None else private


def joint_index(cfg: SceneEntityCfg) -> wp.array:
    """Returns the joints that ``cfg`` selects, int32 (K,), in the order of the selection."""
    return wp.from_torch(cfg.joint_index)


def body_index(cfg: Selection) -> wp.array:
    """Returns the bodies that ``cfg`` selects, int32 (K,), in the order of the selection."""
    return wp.from_torch(cfg.body_index)
