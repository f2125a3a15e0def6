"""Configurations as plain nested mappings, and updates of one from such a mapping."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from lab_core.config.annotations import coerce, entry_type, field_names, is_dataclass_instance, options
from lab_core.config.missing import MISSING, join
from lab_core.config.references import reference_to
from lab_core.errors import ConfigError, UnknownFieldError, unknown_name_message


def to_dict(cfg: Any) -> Any:
    """Dataclasses as dicts of their fields, functions and classes as ``"module:qualname"``; the rest as it is.

    No list, tuple or dict of the result is shared with ``cfg``. Raises ``ConfigError`` naming the path of a function
    that cannot be imported by name, such as a lambda.
    """
    return _to_plain(cfg, "")


def update_from_dict(cfg: Any, changes: Mapping[str, Any]) -> None:
    """Write ``changes`` into ``cfg``, in place: all of them, or none if one is wrong.

    A mapping merges into a dataclass or a dict, a list of mappings element by element into a list of dataclasses of
    the same length; any other value replaces what is there. ``None`` switches off what may be ``None``, such as a term.
    A dict of plain values (``params``) takes new keys; a dict of dataclasses only with a dataclass as value.

    Raises:
        UnknownFieldError: there is no such field; the message names the nearest.
        ConfigError: a value does not fit its annotation.
    """
    for container, key, value in list(_assignments(cfg, Any, changes, "")):
        if is_dataclass_instance(container):
            setattr(container, key, value)
        else:
            container[key] = value


def changes_between(before: Any, after: Any) -> dict[str, Any]:
    """What of the configuration ``after`` differs from ``before``, for ``update_from_dict``: nested like their fields.

    A part that is of another class in ``after`` is taken whole, as its fields need not exist in the other class. A key
    that ``before`` lacks counts as ``None`` there; one that ``after`` lacks stays as it is.
    """
    old, changes = _entries(before), {}
    for key, value in _entries(after).items():
        one = old.get(key)
        if type(one) is type(value) and (is_dataclass_instance(value) or isinstance(value, Mapping)):
            if nested := changes_between(one, value):
                changes[key] = nested
        elif not equal_values(one, value):
            changes[key] = copy.deepcopy(value)
    return changes


def differences_between(before: Any, after: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """The settings that differ: dotted path -> values of both, ``MISSING`` for what one of them does not have.

    Unlike :func:`changes_between` it looks into lists, and tells what is gone.
    """
    one, other = _numbered_entries(before), _numbered_entries(after)
    if one is None or other is None or type(before) is not type(after):
        return {} if equal_values(before, after) else {path: (before, after)}
    found: dict[str, tuple[Any, Any]] = {}
    for key in dict.fromkeys([*one, *other]):
        found |= differences_between(one.get(key, MISSING), other.get(key, MISSING), join(path, key))
    return found


def _numbered_entries(value: Any) -> dict[Any, Any] | None:
    """Fields, entries or elements of what has settings inside; None for single values, such as a list of numbers."""
    if is_dataclass_instance(value) or isinstance(value, Mapping):
        return {str(key): child for key, child in _entries(value).items()}
    if isinstance(value, (list, tuple)) and any(map(is_dataclass_instance, value)):
        return dict(enumerate(value))
    return None


def same_values(a: Any, b: Any) -> bool:
    """Whether two settings are equal; tensors and arrays count as different."""
    try:
        return bool(a == b)
    except (RuntimeError, ValueError):  # tensors and arrays have no single truth value
        return False


def equal_values(a: Any, b: Any) -> bool:
    """Whether two settings are equal; tensors and arrays are if all their numbers are."""
    if type(a) is type(b) and hasattr(a, "shape") and a.shape == b.shape:
        return bool((a == b).all())
    return same_values(a, b)


def _entries(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in field_names(type(value))} if is_dataclass_instance(value) else value


def _to_plain(value: Any, path: str) -> Any:
    if is_dataclass_instance(value):
        return {name: _to_plain(getattr(value, name), join(path, name)) for name in field_names(type(value))}
    if isinstance(value, Mapping):
        return {key: _to_plain(child, join(path, str(key))) for key, child in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_to_plain(child, join(path, index)) for index, child in enumerate(value))
    if inspect.isroutine(value) or isinstance(value, type):
        try:
            return reference_to(value)
        except ConfigError as error:
            raise ConfigError(f"{path or 'the configuration'}: {error}") from None
    return value


def _assignments(target: Any, declared: Any, changes: Mapping[Any, Any], path: str) -> Iterator[tuple[Any, Any, Any]]:
    """What to write where: ``(dataclass or dict, field or key, checked value)``."""
    for key, value in changes.items():
        child_path = join(path, str(key))
        child_type = entry_type(target, declared, key)
        current = _current(target, key, value, child_type, child_path)
        if isinstance(value, Mapping) and (is_dataclass_instance(current) or isinstance(current, dict)):
            yield from _assignments(current, child_type, value, child_path)
        elif _merges_by_element(current, value):
            if len(value) != len(current):
                raise ConfigError(f"{child_path}: got {len(value)} elements, expected {len(current)}")
            for index, (element, change) in enumerate(zip(current, value, strict=True)):
                yield from _assignments(element, Any, change, join(child_path, index))
        else:
            yield target, key, coerce(value, child_type, child_path)


def _current(target: Any, key: Any, value: Any, child_type: Any, path: str) -> Any:
    """What ``key`` holds now; ``None`` for a new key that ``target`` may take."""
    if is_dataclass_instance(target):
        names, what = field_names(type(target)), f"field of {type(target).__name__}"
        if key in names:
            return getattr(target, key)
    else:
        names, what = list(target), "entry"
        if key in target:
            return target[key]
        holds_dataclasses = any(map(dataclasses.is_dataclass, [*target.values(), *options(child_type)]))
        if not holds_dataclasses or is_dataclass_instance(value):
            return None
    raise UnknownFieldError(f"{path}: " + unknown_name_message(what, str(key), map(str, names)))


def _merges_by_element(current: Any, value: Any) -> bool:
    return (
        isinstance(current, (list, tuple))
        and isinstance(value, (list, tuple))
        and len(current) > 0
        and len(value) > 0
        and all(map(is_dataclass_instance, current))
        and all(isinstance(change, Mapping) for change in value)
    )
