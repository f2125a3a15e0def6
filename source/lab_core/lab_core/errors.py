"""Exceptions that tell the user what to change; the ``lab`` command prints them without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LabError(Exception):
    """Base of every error that a user can act upon."""

    def __str__(self) -> str:
        # KeyError, a second base of some of our errors, would show the repr of the message.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class ConfigError(LabError, ValueError):
    """A configuration, or a file that holds one, has a wrong value, name or form."""


class UnknownFieldError(ConfigError, KeyError):
    """A configuration was given a name that it does not have."""


class IncompleteConfigError(ConfigError, TypeError):
    """A configuration still holds ``MISSING`` where a value is required."""


class UnknownTaskError(LabError, KeyError):
    """No task has the id that was asked for."""


class UnknownBackendError(LabError, KeyError):
    """No physics backend has the name that was asked for."""


class PluginError(LabError, ImportError):
    """An installed package offers a task, backend or command that cannot be loaded."""


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The up to three ``names`` most like ``name``, best first, ignoring case."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]


def unknown_name_message(what: str, name: str, names: Iterable[str]) -> str:
    """A message for a ``name`` that is none of ``names``: the nearest ones and all that exist.

    Example: ``unknown_name_message("task", "Lab-Cartpol", ids)`` gives
    "unknown task 'Lab-Cartpol'. Did you mean 'Lab-Cartpole'? Available: Lab-Ant, Lab-Cartpole."
    """
    names = sorted(names)
    message = f"unknown {what} {name!r}."
    close = nearest(name, names)
    if close:
        message += f" Did you mean {' or '.join(repr(match) for match in close)}?"
    return f"{message} Available: {', '.join(names) or 'none'}."
