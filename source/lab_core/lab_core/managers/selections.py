"""Choosing what of the scene a term works on."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from lab_core.config import Settings
from lab_core.errors import ConfigError, LabError

if TYPE_CHECKING:
    from lab_core.scene import Scene

Indices: TypeAlias = slice | torch.Tensor
"""A slice where the selection is contiguous, so that indexing makes a view; else int64 on the scene's device."""


@dataclass(frozen=True)
class Columns:
    """A selection of columns."""

    ids: Indices
    """For torch, which makes a view where it can."""
    index: torch.Tensor
    """The same as int32, for kernels."""

    @classmethod
    def choose(cls, ids: list[int], count: int, device: torch.device) -> Columns:
        """Selects ``ids`` of ``count`` columns."""
        # A list would be copied to the device, and waited for, at every use.
        index = torch.tensor(ids, dtype=torch.int32, device=device)
        if ids == list(range(count)):
            return cls(slice(None), index)
        if ids and ids == list(range(ids[0], ids[0] + len(ids))):
            return cls(slice(ids[0], ids[0] + len(ids)), index)
        return cls(index.long(), index)


@dataclass
class Selection(Settings, ABC):
    """Something of the scene with some of its bodies, by name: a base of :class:`SceneEntityCfg`.

    A manager resolves every instance in a term's parameters (also inside dicts, lists, tuples and nested term
    configurations) when it is built.
    """

    name: str
    """Its key in the scene."""
    _: KW_ONLY
    body_names: str | Sequence[str] | None = None
    """Names or regular expressions; None: all bodies."""
    preserve_order: bool = False
    """Keep the order of the given names instead of that of the scene."""

    def __post_init__(self) -> None:
        # Not a field: what is resolved belongs to one scene, and stays out of comparison and of files.
        self._bodies: Columns | None = None

    @property
    def body_ids(self) -> Indices:
        """Body columns. Raises :class:`LabError` before :meth:`resolve`."""
        return self._resolved(self._bodies).ids

    @property
    def body_index(self) -> torch.Tensor:
        """:attr:`body_ids` as an int32 tensor, for kernels."""
        return self._resolved(self._bodies).index

    @abstractmethod
    def resolve(self, scene: Scene) -> None:
        """Looks up the names.

        Raises:
            UnknownNameError: there is no such name.
        """

    def _resolved(self, columns: Columns | None) -> Columns:
        if columns is None:
            raise LabError(
                f"{self} has not been resolved. Pass it in the params of a term (set_term_cfg for a running term), "
                "or call resolve(env.scene)."
            )
        return columns


@dataclass
class SceneEntityCfg(Selection):
    """An entity of the scene with some of its joints and bodies, by name.

    A term indexes with :attr:`joint_ids` and :attr:`body_ids`, once a manager has resolved them::

        env.scene[asset_cfg.name].data.joint_pos[:, asset_cfg.joint_ids]
    """

    name: str = "robot"
    """Key of the entity in the scene."""
    _: KW_ONLY
    joint_names: str | Sequence[str] | None = None
    """Names or regular expressions; None: all joints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._joints: Columns | None = None
        self._no_joints = ""

    @property
    def joint_ids(self) -> Indices:
        """Joint columns. Raises :class:`LabError` before :meth:`resolve`, :class:`ConfigError` where the entity is of a
        kind that has no joints."""
        return self._resolved_joints().ids

    @property
    def joint_index(self) -> torch.Tensor:
        """:attr:`joint_ids` as an int32 tensor, for kernels."""
        return self._resolved_joints().index

    def _resolved_joints(self) -> Columns:
        columns = self._resolved(self._joints)
        if self._no_joints:
            raise ConfigError(self._no_joints)
        return columns

    def resolve(self, scene: Scene) -> None:
        """Looks up the names.

        Raises:
            UnknownNameError: the scene has no such entity, or the entity no such joint or body.
        """
        entity = scene[self.name]
        device = entity.data.root_link_pose_w.device
        joints, bodies = list(range(len(entity.joint_names))), list(range(len(entity.body_names)))
        if self.joint_names is not None:
            joints = entity.find_joints(self.joint_names, preserve_order=self.preserve_order)
        if self.body_names is not None:
            bodies = entity.find_bodies(self.body_names, preserve_order=self.preserve_order)
        if not entity.has_joints:
            self._no_joints = f"Entity {self.name!r} is of the kind {entity.kind!r}, which has no joints."
        self._joints = Columns.choose(joints, len(entity.joint_names), device)
        self._bodies = Columns.choose(bodies, len(entity.body_names), device)


def resolve_selections(value: Any, scene: Scene) -> None:
    """Resolves every :class:`Selection` in ``value``, a tree of mappings, lists, tuples and dataclasses."""
    if isinstance(value, Selection):
        value.resolve(scene)
    elif isinstance(value, Mapping):
        for child in value.values():
            resolve_selections(child, scene)
    elif isinstance(value, (list, tuple)):
        for child in value:
            resolve_selections(child, scene)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            resolve_selections(getattr(value, field.name), scene)
