"""Tasks, physics backends and commands that installed packages offer through entry points.

A package announces a task in its ``pyproject.toml``:

    [project.entry-points."lab.tasks"]
    Lab-Cartpole = "lab_tasks.cartpole:CARTPOLE"        # a TaskSpec

The names of a group are known without importing anything; an object is imported when it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from lab_core.config.references import package_path, resolve_reference
from lab_core.errors import ConfigError, PluginError, UnknownBackendError, UnknownTaskError, unknown_name_message


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """What a task consists of: the function that makes its environment config, and its agents' configs.

    Functions may be given as ``"module:name"``, so that the module of the spec imports nothing heavy and
    ``lab list`` stays fast.
    """

    id: str
    """Name of the task on the command line, e.g. ``Lab-Velocity-Flat-Go2``."""

    env_cfg: str | Callable[..., Any]
    """``factory(play: bool = False) -> config``: a fresh environment config; ``play`` gives the one for watching."""

    agents: Mapping[str, str | Callable[[], Any]] = field(default_factory=dict)
    """Per learning algorithm (``ppo``, ...) a function that makes a fresh agent config. The first is the default."""

    description: str = ""
    """One line for ``lab list``."""

    demo: str | None = None
    """A trained policy that comes with the package, ``"package:path/inside/package.onnx"``, to watch untrained."""

    dynamics_cfg: str | Callable[[], Any] | None = None
    """A function that makes fresh settings of how a model of its dynamics is fitted."""

    evaluator: str | Callable[[], Any] | None = None
    """A class without arguments, a :class:`lab_core.rollouts.Evaluator`: what the task measures of policies."""

    def make_env_cfg(self, play: bool = False) -> Any:
        """A fresh environment config. Raises ``PluginError`` if its function cannot be imported."""
        return _resolve(self.env_cfg, f"environment config of task {self.id!r}")(play=play)

    def make_agent_cfg(self, agent: str | None = None) -> Any:
        """A fresh config of ``agent``, or of the task's first one. Raises ``ConfigError`` for an unknown name."""
        if not self.agents:
            raise ConfigError(f"task {self.id!r} has no agent config")
        name = next(iter(self.agents)) if agent is None else agent
        if name not in self.agents:
            raise ConfigError(f"task {self.id!r}: " + unknown_name_message("agent", name, self.agents))
        return _resolve(self.agents[name], f"agent config {name!r} of task {self.id!r}")()

    def make_dynamics_cfg(self) -> Any:
        """Fresh settings of a fit of its dynamics. Raises ``ConfigError`` when it has none."""
        if self.dynamics_cfg is None:
            raise ConfigError(f"task {self.id!r} has no settings for a fit of its dynamics")
        return _resolve(self.dynamics_cfg, f"dynamics config of task {self.id!r}")()

    def make_evaluator(self) -> Any:
        """What measures policies of it. Raises ``ConfigError`` when there is none."""
        if self.evaluator is None:
            raise ConfigError(f"task {self.id!r} does not say how policies are evaluated")
        return _resolve(self.evaluator, f"evaluator of task {self.id!r}")()

    def demo_path(self) -> Path:
        """The file of the policy that comes with the task. Raises ``ConfigError`` when none does."""
        if self.demo is None:
            raise ConfigError(f"No policy comes with {self.id}; train one with `lab train {self.id}`.")
        return package_path(self.demo)


class EntryPointGroup:
    """The objects that installed packages announce under one entry-point group."""

    def __init__(self, group: str, what: str):
        """``what`` names one object in messages, e.g. ``"task"``."""
        self.group = group
        self.what = what

    def names(self) -> list[str]:
        """Sorted names; nothing is imported."""
        return sorted({point.name for point in entry_points(group=self.group)})

    def package(self, name: str) -> str:
        """The distribution that offers ``name``."""
        return _distribution(self.entry_point(name))

    def load(self, name: str) -> Any:
        """Import the object called ``name``, one of ``names()``.

        Raises ``PluginError`` when its module fails to import, lacks it, or two packages offer it.
        """
        point = self.entry_point(name)
        try:
            return point.load()
        except Exception as error:
            raise PluginError(
                f"{self.what} {name!r} of package {_distribution(point)!r} cannot be loaded from {point.value!r}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def entry_point(self, name: str) -> EntryPoint:
        """Where ``name`` is defined. Raises ``PluginError`` when two packages offer it differently."""
        points = list(entry_points(group=self.group, name=name))
        if len({point.value for point in points}) > 1:
            offers = " and ".join(f"{_distribution(point)!r} ({point.value})" for point in points)
            raise PluginError(f"{self.what} {name!r} is offered twice, by {offers}; uninstall one of them")
        return points[0]


_GROUPS = ("lab.tasks", "lab.commands", "lab.backends", "lab.frontends", "lab.twins", "lab.algorithms")
_TASKS = EntryPointGroup("lab.tasks", "task")
_BACKENDS = EntryPointGroup("lab.backends", "physics backend")
_registered_tasks: dict[str, TaskSpec] = {}


def task_ids() -> list[str]:
    """Sorted ids of all tasks, installed or registered. Imports no task."""
    return sorted({*_TASKS.names(), *_registered_tasks})


def get_task(task_id: str) -> TaskSpec:
    """The task called ``task_id``.

    Raises ``UnknownTaskError`` (with the nearest ids) or ``PluginError`` (the package that offers it is broken).
    """
    if task_id in _registered_tasks:
        return _registered_tasks[task_id]
    if task_id not in _TASKS.names():
        raise UnknownTaskError(unknown_name_message("task", task_id, task_ids()))
    spec = _TASKS.load(task_id)
    if not isinstance(spec, TaskSpec):
        raise PluginError(f"task {task_id!r} of package {_TASKS.package(task_id)!r} is a {type(spec).__name__}, "
                          "expected a TaskSpec")  # fmt: skip
    if spec.id != task_id:
        raise PluginError(f"task {task_id!r} of package {_TASKS.package(task_id)!r} calls itself {spec.id!r}")
    return spec


def task_package(task_id: str) -> str:
    """The distribution that offers ``task_id``, or ``(registered)`` for one made by ``register_task``."""
    return "(registered)" if task_id in _registered_tasks else _TASKS.package(task_id)


def task_module(task_id: str) -> str:
    """The module in which ``task_id`` is defined. Raises as :func:`get_task` does."""
    if task_id not in _registered_tasks:
        get_task(task_id)
        return _TASKS.entry_point(task_id).module
    factory = _registered_tasks[task_id].env_cfg
    return factory.partition(":")[0] if isinstance(factory, str) else factory.__module__


def register_task(spec: TaskSpec) -> None:
    """Add a task from a script or notebook; doing so again replaces it.

    Raises ``ConfigError`` when an installed package already offers a task of that id.
    """
    if spec.id in _TASKS.names():
        raise ConfigError(f"task id {spec.id!r} is taken by package {_TASKS.package(spec.id)!r}; choose another")
    _registered_tasks[spec.id] = spec


def announced_packages() -> frozenset[str]:
    """Top-level packages with an entry point of ``lab``, and those of tasks that were registered, none of them of
    Python's own library. Imports nothing."""
    points = [point for group in _GROUPS for point in entry_points(group=group)]
    factories = (factory for spec in _registered_tasks.values() for factory in (spec.env_cfg, *spec.agents.values()))
    modules = [factory.partition(":")[0] if isinstance(factory, str) else factory.__module__ for factory in factories]
    packages = frozenset(name.partition(".")[0] for name in (*modules, *(point.module for point in points)))
    return packages - sys.stdlib_module_names


def backend_class(name: str) -> type:
    """The physics backend called ``name``. Raises ``UnknownBackendError`` or ``PluginError``."""
    if name not in _BACKENDS.names():
        raise UnknownBackendError(unknown_name_message("physics backend", name, _BACKENDS.names()))
    return _BACKENDS.load(name)


def _resolve(target: str | Callable[..., Any], what: str) -> Callable[..., Any]:
    if callable(target):
        return target
    try:
        return resolve_reference(target)
    except ConfigError as error:
        raise PluginError(f"{what} cannot be loaded: {error}") from error


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "(unknown)"
