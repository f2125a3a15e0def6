"""The check that every value of a configuration is of the kind that its field declares."""

from __future__ import annotations

from typing import Any

from lab_core.config.annotations import coerce, field_names, field_types, is_dataclass_instance
from lab_core.config.missing import MISSING, children, join


def check_kinds(cfg: Any, path: str = "") -> None:
    """Checks the fields of the dataclass ``cfg`` and of all dataclasses inside, and changes nothing.

    A list where a tuple is declared, or an integer where a float is, are as good.

    Args:
        cfg: The configuration.
        path: What it is called in messages.

    Raises:
        ConfigError: a value is of the wrong kind; the message names the field, the value and what was expected.
    """
    if is_dataclass_instance(cfg):
        types = field_types(type(cfg))
        for name in field_names(type(cfg)):
            value = getattr(cfg, name)
            if value is not MISSING and not _holds_settings(value):
                coerce(value, types[name], join(path, name))
    for key, child in children(cfg):
        check_kinds(child, join(path, key))


def _holds_settings(value: Any) -> bool:
    """Whether dataclasses lie inside: these are checked one by one, by their own fields."""
    return is_dataclass_instance(value) or any(_holds_settings(child) for _, child in children(value))
