"""What every kind of entity has in Newton, and how a configuration becomes one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import singledispatch
from typing import ClassVar, Generic, TypeVar

import newton
import warp as wp

from lab_core.errors import ConfigError, LabError
from lab_core.scene import ActuatorCfg, EntityCfg, EntityData
from lab_newton.robot_files import EntityLayout, ImportedFile
from lab_newton.state.properties import Properties
from lab_warp.views import share_entity

CfgT = TypeVar("CfgT", bound=EntityCfg)
DataT = TypeVar("DataT", bound=EntityData)


class NewtonEntity(ABC, Generic[CfgT, DataT]):
    """One entity in all worlds: what it adds to the model, and the exchange of its buffers with Newton's arrays.

    A kind of entity is a subclass that :func:`make_entity` knows. The backend, sensors and recordings know of an entity
    what stands here and nothing else. Its :attr:`data` is allocated once. :meth:`bind` connects it to a model and may
    be called again with a new one: the buffers stay where they are. The methods below it are captured as part of the
    backend's graphs: they launch kernels and do nothing else.
    """

    data_type: type[DataT]
    """What its buffers are; those of a kind with joints are in an :class:`~lab_core.scene.ArticulationData`."""
    data: DataT
    """Its buffers, with ``data.warp``. There once it has been added to a builder, as is :attr:`layout`."""
    layout: EntityLayout
    """Its names, and its places inside one world's slice of Newton's arrays."""
    properties: Properties
    """What is read from the model, and handed back to it where it changes."""
    imported: ImportedFile | None = None
    """The model file that it was made from, if any. There once it has been added to a builder."""
    actuators: Mapping[str, ActuatorCfg] = {}
    """Groups of actuators by name, which drive the joints."""
    has_own_colors_as_ghost: ClassVar[bool] = False
    """Whether its ghosts have its colours, by which people tell how it is turned."""

    def __init__(self, cfg: CfgT, name: str, num_envs: int, device: wp.Device) -> None:
        """``name`` is the entity's key in the scene, and ``cfg`` what stands there."""
        self.cfg = cfg
        self.name = name
        self.num_envs = num_envs
        self.device = device

    def add_to(self, world: newton.ModelBuilder) -> None:
        """Adds the entity to the builder of one world, once for every model.

        Raises:
            ConfigError: the configuration describes nothing that can be built.
        """
        self.layout = layout = self._add_to(world)
        if not hasattr(self, "data"):
            device = wp.device_to_torch(self.device)
            self.data = self.data_type(
                self.num_envs, layout.joint_names, layout.body_names, not layout.floating, device
            )
            share_entity(self.data)

    def bind(self, model: newton.Model, env_origins: wp.array, state: newton.State) -> None:
        """Reads the model's properties into the buffers and fills every world with its default state at its origin."""
        self.properties = Properties(self.name, self.data, self.layout, model)
        self.properties.read()
        self._fill_defaults()
        self.restore_default(wp.ones(self.num_envs, dtype=wp.bool, device=self.device), env_origins, state)

    def add_ghost_to(self, world: newton.ModelBuilder) -> EntityLayout:
        """Adds what :meth:`add_to` does to the builder of a model that is only drawn, and changes nothing here.

        Raises:
            LabError: entities of this kind cannot be drawn as ghosts.
        """
        raise LabError(f"{self.name!r} is a {type(self.cfg).__name__}, of which there are no ghosts.")

    @abstractmethod
    def _add_to(self, world: newton.ModelBuilder) -> EntityLayout:
        """Adds bodies, joints and shapes to the builder of one world and returns where they are."""

    @abstractmethod
    def _fill_defaults(self) -> None:
        """Fills the buffers that say what a reset does, and others that the configuration sets."""

    @abstractmethod
    def write_state(self, mask: wp.array, state: newton.State) -> None:
        """Hands the authored state of the worlds of ``mask`` (N,) to Newton's joint arrays."""

    @abstractmethod
    def restore_default(self, mask: wp.array, env_origins: wp.array, state: newton.State) -> None:
        """Puts the worlds of ``mask`` to the default state, with cleared targets and efforts, here and in Newton."""

    @abstractmethod
    def read_state(
        self,
        model: newton.Model,
        state: newton.State,
        written: wp.array,
        mask: wp.array | None = None,
        elapsed: float | None = None,
    ) -> None:
        """Fills state and derived state of the worlds of ``mask``; without it of all, and clears ``written``.

        Args:
            model: The model that it is bound to.
            state: Newton's state.
            written: (N,) bool, worlds with authored state.
            mask: (N,) bool; None: all worlds.
            elapsed: Time [s] since the last call without a mask, for rates of change; None leaves these alone.
        """

    def write_targets(self, control: newton.Control, non_finite: wp.array) -> None:
        """Hands the targets of joints to the arrays that Newton's actuators read; marks worlds with a bad target."""

    def read_effort(self, control: newton.Control) -> None:
        """Copies the effort that the solver is about to receive."""


@singledispatch
def make_entity(cfg: EntityCfg, name: str, num_envs: int, device: wp.Device) -> NewtonEntity:
    """Returns the entity that ``cfg`` describes, in ``num_envs`` worlds; ``name`` is its key in the scene.

    What is registered for the class of ``cfg``, or for the nearest of its bases, makes it. Another package adds a kind
    of entity by registering it beside its configuration::

        make_entity.register(CrateCfg, Crate)

    Raises:
        ConfigError: nothing is registered for the class of ``cfg``.
    """
    known = ", ".join(sorted(kind.__name__ for kind in make_entity.registry if kind is not object))
    raise ConfigError(
        f"scene.entities[{name!r}]: no entity is registered for a {type(cfg).__name__}, only for {known}. "
        f"lab_newton.state.make_entity.register({type(cfg).__name__}, ...) adds one."
    )
