"""The check that every value of a configuration is of the kind that its field declares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lab_core.config.annotations import coerce, describe, entry_type, got
from lab_core.config.missing import children, join
from lab_core.errors import ConfigError


def check_kinds(value: Any, path: str = "", declared: Any = Any) -> None:
    """Checks the fields of a dataclass and of all dataclasses inside, and changes nothing.

    A list where a tuple is declared, or an integer where a float is, are as good. NaN is no setting.

    Args:
        value: The configuration, or a value of one.
        path: What it is called in messages.
        declared: Annotation that it must fit.

    Raises:
        ConfigError: a value is of the wrong kind, or beyond the :mod:`~lab_core.config.limits` that its field declares;
            the message names the field, the value and what was expected.
    """
    if not _is_as_good(value, coerce(value, declared, path)):
        raise ConfigError(f"{path}: {got(value)}, expected {describe(declared)}")
    if isinstance(value, float) and math.isnan(value):
        raise ConfigError(f"{path}: got nan, expected a number")
    for key, child in children(value):
        check_kinds(child, join(path, key), entry_type(value, declared, key))


def _is_as_good(value: Any, converted: Any) -> bool:
    """Whether nothing would have to be converted: code is given, not its name, and settings, not a mapping of them."""
    if isinstance(value, list | tuple | Mapping):  # what is inside is checked by itself
        return not isinstance(value, Mapping) or isinstance(converted, Mapping)
    return converted is value or isinstance(value, int)
