"""Choosing joints and bodies by name or regular expression."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab_core.errors import LabError


class UnknownNameError(LabError, ValueError, KeyError):
    """A joint, body or entity name that does not exist or is not unique."""


def match_names(
    patterns: str | Sequence[str], names: Sequence[str], *, what: str, preserve_order: bool = False
) -> list[int]:
    """Returns the indices of the names that fully match one of the regular expressions.

    Args:
        patterns: Names or regular expressions.
        names: All names, in index order.
        what: What is chosen, for the error message, for example ``"joint of 'robot'"``.
        preserve_order: Order the result by ``patterns`` instead of by ``names``.

    Raises:
        UnknownNameError: a pattern matches nothing or is broken, or two patterns match the same name.
    """
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    owner: dict[int, str] = {}
    ordered: list[int] = []
    for pattern in patterns:
        try:
            matches = [i for i, name in enumerate(names) if re.fullmatch(pattern, name)]
        except re.error as error:
            raise UnknownNameError(f"{pattern!r} is no regular expression for a {what}: {error}.") from error
        if not matches:
            raise UnknownNameError(f"No {what} matches {pattern!r}. There are: {', '.join(names)}.")
        for i in matches:
            if i in owner:
                raise UnknownNameError(f"The {what} {names[i]!r} is matched by both {owner[i]!r} and {pattern!r}.")
            owner[i] = pattern
            ordered.append(i)
    return ordered if preserve_order else sorted(ordered)


def values_by_name(
    values: float | Mapping[str, float], names: Sequence[str], *, what: str, default: float = 0.0
) -> list[float]:
    """Expands one number, or numbers by regular expression, to one number per name.

    Raises:
        UnknownNameError: a pattern matches nothing, or two patterns match the same name.
    """
    if not isinstance(values, Mapping):
        return [float(values)] * len(names)
    result = [default] * len(names)
    taken: dict[int, str] = {}
    for pattern, value in values.items():
        for i in match_names(pattern, names, what=what):
            if i in taken:
                raise UnknownNameError(f"The {what} {names[i]!r} is matched by both {taken[i]!r} and {pattern!r}.")
            taken[i] = pattern
            result[i] = float(value)
    return result
