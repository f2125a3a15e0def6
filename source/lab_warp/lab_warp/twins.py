"""Warp twins of torch terms: which kernel code stands for which term.

A package announces the modules that register its twins in its ``pyproject.toml``, so that they are imported only where
a Warp environment is built:

    [project.entry-points."lab.twins"]
    lab_tasks = "lab_tasks.twins"
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, TypeVar

from lab_core.errors import ConfigError, PluginError

_T = TypeVar("_T", bound=Callable[..., Any])
_GROUP = "lab.twins"
_twins: dict[Any, Callable[..., Any]] = {}
_all_loaded = False


def twin_of(original: Callable[..., Any]) -> Callable[[_T], _T]:
    """Decorator: this is the Warp twin of a torch term.

    Twins of functions take the same parameters by the same names and write their result:

    - observations, rewards, terminations, metrics: ``func(env, out, **params)``, ``out`` a Warp array (N, D) float32
      (a view with strides), (N,) float32, (N,) bool, (N,) float32;
    - events and curricula: ``func(env, mask, **params)`` and ``func(env, mask, out, **params)``, with ``mask`` (N,)
      wp.bool and ``out`` (1,) float32, the value to log.

    A term class, and the configuration of an action, a command or a direct environment, has a class as its twin.

    Raises:
        ConfigError: ``original`` has a twin already.
    """

    def register(twin: _T) -> _T:
        known = _twins.setdefault(original, twin)
        if known is not twin:
            raise ConfigError(f"{_name(original)} has a Warp twin already: {_name(known)}.")
        return twin

    return register


def find_twin(original: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns the twin of a term's function or class, or of a configuration's class; None if there is none.

    Raises:
        PluginError: a package announces twins that cannot be imported.
    """
    _load_all()
    return _twins.get(original)


def all_twins() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Returns every known original with its twin.

    Raises:
        PluginError: a package announces twins that cannot be imported.
    """
    _load_all()
    return dict(_twins)


def _load_all() -> None:
    global _all_loaded
    if _all_loaded:  # asking the installed packages takes milliseconds, and every term asks
        return
    for point in entry_points(group=_GROUP):
        try:
            point.load()
        except Exception as error:
            raise PluginError(f"Warp twins of {point.name!r} cannot be loaded from {point.value!r}: {error}") from error
    _all_loaded = True


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"
