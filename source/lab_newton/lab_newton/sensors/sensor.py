"""What every sensor of the backend has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import newton
import torch
import warp as wp

from lab_core.errors import ConfigError
from lab_core.names import match_names
from lab_core.sensors import SensorCfg, SensorData
from lab_newton.contact_set import ContactSearch
from lab_newton.solver import Solver
from lab_newton.state import NewtonEntity
from lab_newton.terrain import Ground
from lab_warp.views import Arrays


@dataclass(frozen=True)
class SensorContext:
    """What a sensor is built into."""

    entities: Mapping[str, NewtonEntity]
    ground: Ground
    """What rays hit."""
    dt: float
    """Physics substep [s]."""
    solver_steps: int
    """Solver steps per substep."""


class Sensor(ABC):
    """One sensor in all worlds, built from its configuration by :func:`make_sensor`.

    Its :class:`SensorData` is allocated once; :meth:`bind` connects it to a model and may be called again with a new
    one. All other methods are captured as part of the backend's graphs: they launch kernels and do nothing else.
    """

    data: SensorData
    observables: frozenset[str] = frozenset()
    """``SolverBase.ObservableKind`` that the sensor needs of the last solver step of a step."""
    contact_search: ContactSearch | None = None
    """Which contacts it wants to see in ``solver.contact_set`` from :meth:`bind` on; None: none."""
    reads_bodies_early: bool = False
    """Whether :meth:`before_substep` looks at bodies, which must then be where joints put them."""

    def __init__(self, cfg: SensorCfg, name: str, context: SensorContext) -> None:
        """``name`` is the sensor's key in the scene.

        Raises:
            ConfigError: the scene has no entity ``cfg.entity``.
        """
        self.name = name
        if cfg.entity not in context.entities:
            raise ConfigError(
                f"scene.sensors[{name!r}].entity: the scene has no {cfg.entity!r}. "
                f"It has: {', '.join(context.entities)}."
            )
        self.entity = context.entities[cfg.entity]
        self.num_envs = self.entity.num_envs
        self.device = self.entity.device

    @property
    def torch_device(self) -> torch.device:
        return torch.device(wp.device_to_torch(self.device))

    def find_bodies(self, patterns: str | Sequence[str]) -> list[int]:
        """Returns indices into the bodies of the sensor's entity, in the order of the patterns.

        Raises:
            UnknownNameError: a pattern matches no body.
        """
        what = f"body of {self.entity.name!r} (scene.sensors[{self.name!r}])"
        return match_names(patterns, self.entity.layout.body_names, what=what, preserve_order=True)

    def find_body(self, name: str) -> int:
        """Returns the index of one body of the sensor's entity.

        Raises:
            UnknownNameError: there is no such body.
            ConfigError: ``name`` is a pattern that matches several.
        """
        found = self.find_bodies(name)
        if len(found) > 1:
            names = ", ".join(self.entity.layout.body_names[body] for body in found)
            raise ConfigError(f"scene.sensors[{self.name!r}]: {name!r} must name one body, it matches {names}.")
        return found[0]

    @abstractmethod
    def bind(self, model: newton.Model, solver: Solver, state: newton.State) -> None:
        """Connects the buffers to an engine and empties them.

        Raises:
            ConfigError: the solver does not offer what the sensor measures.
        """

    def before_substep(self) -> None:
        """Called before every physics substep, when the efforts are known that act in it: reads the state that they
        act on."""

    def before_last_solver_step(self) -> None:
        """Called before the last solver step of a step."""

    def after_solver_step(self) -> None:
        """Called after every solver step."""

    def after_substep(self) -> None:
        """Called after every physics substep."""

    def after_step(self) -> None:
        """Called at the end of a step: reads what the last solver step left behind."""

    def refresh(self, mask: wp.array | None) -> None:
        """Reads what follows from the state alone, in the worlds of ``mask`` (N,); None: in all."""

    def clear(self, mask: wp.array) -> None:
        """Empties the rows of the worlds of ``mask`` (N,)."""


@singledispatch
def make_sensor(cfg: SensorCfg, name: str, context: SensorContext) -> Sensor:
    """Returns the sensor that ``cfg`` describes; ``name`` is its key in the scene.

    What is registered for the class of ``cfg``, or for the nearest of its bases, makes it. Another package adds a kind
    of sensor by registering it beside its configuration::

        make_sensor.register(OdometerCfg, Odometer)

    Raises:
        ConfigError: nothing is registered for the class of ``cfg``, or ``cfg`` names what the scene does not have.
    """
    known = ", ".join(sorted(kind.__name__ for kind in make_sensor.registry if kind is not object))
    raise ConfigError(
        f"scene.sensors[{name!r}]: no sensor is registered for a {type(cfg).__name__}, only for {known}. "
        f"lab_newton.sensors.make_sensor.register({type(cfg).__name__}, ...) adds one."
    )


def share_with_warp(data: SensorData, dtypes: Mapping[str, Any]) -> None:
    """Sets ``data.warp`` to Warp arrays over the memory of the buffers named in ``dtypes``."""
    data.warp = Arrays({name: wp.from_torch(getattr(data, name), dtype=dtype) for name, dtype in dtypes.items()})
