"""Choosing the entity, joints and bodies that a term works on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch

from lab_core.errors import LabError

if TYPE_CHECKING:
    from lab_core.scene import Scene

_T = TypeVar("_T")
Indices: TypeAlias = slice | torch.Tensor
"""A slice where the selection is contiguous, so that indexing makes a view; else int64 on the scene's device."""


@dataclass
class SceneEntityCfg:
    """An entity of the scene with some of its joints and bodies, by name.

    A manager resolves every instance in a term's parameters (also inside dicts, lists, tuples and nested term
    configurations) when it is built. A term then indexes with :attr:`joint_ids` and :attr:`body_ids`::

        env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids]
    """

    name: str = "robot"
    """Key of the entity in the scene."""
    _: KW_ONLY
    joint_names: str | Sequence[str] | None = None
    """Names or regular expressions; None: all joints."""
    body_names: str | Sequence[str] | None = None
    """Names or regular expressions; None: all bodies."""
    preserve_order: bool = False
    """Keep the order of the given names instead of that of the entity."""

    def __post_init__(self) -> None:
        # Not fields: what is resolved belongs to one scene, and stays out of comparison and of files.
        self._joint_ids: Indices | None = None
        self._body_ids: Indices | None = None
        self._joint_index: torch.Tensor | None = None
        self._body_index: torch.Tensor | None = None

    @property
    def joint_ids(self) -> Indices:
        """Joint columns. Raises :class:`LabError` before :meth:`resolve`."""
        return self._resolved(self._joint_ids)

    @property
    def body_ids(self) -> Indices:
        """Body columns. Raises :class:`LabError` before :meth:`resolve`."""
        return self._resolved(self._body_ids)

    @property
    def joint_index(self) -> torch.Tensor:
        """:attr:`joint_ids` as an int32 tensor, for kernels."""
        return self._resolved(self._joint_index)

    @property
    def body_index(self) -> torch.Tensor:
        """:attr:`body_ids` as an int32 tensor, for kernels."""
        return self._resolved(self._body_index)

    def resolve(self, scene: Scene) -> None:
        """Looks up the names.

        Raises:
            UnknownNameError: the scene has no such entity, or the entity no such joint or body.
        """
        entity = scene[self.name]
        device = entity.data.joint_pos.device
        joints, bodies = list(range(len(entity.joint_names))), list(range(len(entity.body_names)))
        if self.joint_names is not None:
            joints = entity.find_joints(self.joint_names, preserve_order=self.preserve_order)
        if self.body_names is not None:
            bodies = entity.find_bodies(self.body_names, preserve_order=self.preserve_order)
        self._joint_ids, self._joint_index = indices(joints, len(entity.joint_names), device)
        self._body_ids, self._body_index = indices(bodies, len(entity.body_names), device)

    def _resolved(self, ids: _T | None) -> _T:
        if ids is None:
            raise LabError(
                f"{self} has not been resolved. Pass it in the params of a term (set_term_cfg for a running term), "
                "or call resolve(env.scene)."
            )
        return ids


def resolve_scene_entities(value: Any, scene: Scene) -> None:
    """Resolves every :class:`SceneEntityCfg` in ``value``, a tree of mappings, lists, tuples and dataclasses."""
    if isinstance(value, SceneEntityCfg):
        value.resolve(scene)
    elif isinstance(value, Mapping):
        for child in value.values():
            resolve_scene_entities(child, scene)
    elif isinstance(value, (list, tuple)):
        for child in value:
            resolve_scene_entities(child, scene)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            resolve_scene_entities(getattr(value, field.name), scene)


def indices(ids: list[int], count: int, device: torch.device) -> tuple[Indices, torch.Tensor]:
    """Returns a selection of ``count`` columns for torch, which makes a view where it can, and for kernels."""
    # A list would be copied to the device, and waited for, at every use.
    index = torch.tensor(ids, dtype=torch.int32, device=device)
    if ids == list(range(count)):
        return slice(None), index
    if ids and ids == list(range(ids[0], ids[0] + len(ids))):
        return slice(ids[0], ids[0] + len(ids)), index
    return index.long(), index
