"""Errors that terms raise while they run, with the name of the term and of the parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from lab_core.errors import LabError
from lab_core.managers.errors import TermError

_LAUNCH = "launching kernel"
"""Part of all that Warp says of arguments that do not fit a kernel."""


def raise_named(error: Exception, what: str, params: Mapping[str, Any]) -> NoReturn:
    """Raises ``error`` again, with the name of the term that raised it.

    What users can act upon names the term, and the parameter that it speaks of; so does an array that does not fit a
    kernel. Any other error is one of the term's code: it stays as it is, with a note.

    Args:
        error: What the term raised.
        what: Manager and name, such as ``reward term 'speed'``.
        params: Of the term.

    Raises:
        Exception: the error, or a :class:`TermError` from it.
    """
    words = str(error)
    if isinstance(error, LabError):
        if what not in words:
            error.args = (f"{what}: {_parameter(words, params)}{words}",)
        raise error
    if _LAUNCH in words:
        raise TermError(f"{what}: its Warp code does not fit what it is given: {' '.join(words.split())}") from error
    note = f"raised by {what}, params: {dict(params)}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    raise error


def _parameter(words: str, params: Mapping[str, Any]) -> str:
    """Returns the parameter whose text a message quotes, to put before it; or nothing."""
    found = [name for name, value in params.items() if isinstance(value, str) and repr(value) in words]
    return f"params.{found[0]}: " if found else ""
