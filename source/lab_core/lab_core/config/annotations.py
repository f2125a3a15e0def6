"""Do values fit the annotations of configuration fields?"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from lab_core.config.limits import Ordered, Within
from lab_core.config.missing import MISSING, join
from lab_core.config.references import resolve_reference
from lab_core.errors import ConfigError, LabError, UnknownFieldError, unknown_name_message


@functools.cache
def field_types(cls: type) -> dict[str, Any]:
    """Returns the annotated type of each field of the dataclass ``cls``.

    Raises:
        ConfigError: A name in an annotation does not exist at run time, for instance because it is imported for type
            checkers only: values of that field could not be checked.
    """
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        namespace = vars(sys.modules.get(base.__module__, typing))
        for name, annotation in inspect.get_annotations(base).items():
            try:
                found[name] = eval(annotation, namespace) if isinstance(annotation, str) else annotation
            except (NameError, AttributeError, TypeError) as error:
                where = f"{base.__module__}.{base.__qualname__}.{name}"
                raise ConfigError(
                    f"{where}: its annotation {annotation!r} means nothing at run time ({error}); import what it"
                    " names outside of TYPE_CHECKING"
                ) from error
    return found


def entry_type(container: object, declared: Any, key: Any) -> Any:
    """Annotated type of ``container[key]`` (or of that field), where ``container`` is annotated as ``declared``.

    A dataclass may define ``narrowed_types()``, which returns closer types of fields that depend on its present values.
    """
    if is_dataclass_instance(container):
        narrowed_types = getattr(container, "narrowed_types", dict)
        return narrowed_types().get(key) or field_types(type(container)).get(key, Any)
    for option in options(declared):
        if typing.is_typeddict(option):
            return option.__annotations__.get(key, Any)
        arguments = typing.get_args(option)
        if isinstance(container, Mapping) and is_form_of(option, Mapping) and len(arguments) == 2:
            return arguments[1]
        if isinstance(container, tuple) and typing.get_origin(option) is tuple and arguments:
            return arguments[0] if arguments[-1] is Ellipsis else arguments[key] if key < len(arguments) else Any
        if isinstance(container, Sequence) and is_form_of(option, Sequence) and arguments:
            return arguments[0]
    return Any


def options(declared: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return typing.get_args(declared) if typing.get_origin(declared) in (Union, types.UnionType) else (declared,)


def allows_none(declared: Any) -> bool:
    """Whether ``None`` fits the annotation ``declared``."""
    return any(option in (None, type(None), Any, object) for option in options(declared))


def field_names(cls: type) -> list[str]:
    """Names of the fields that the constructor of dataclass ``cls`` takes."""
    return [field.name for field in dataclasses.fields(cls) if field.init]


def is_dataclass_instance(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def coerce(value: Any, declared: Any, path: str) -> Any:
    """``value`` in the form that annotation ``declared`` asks for.

    Lists become tuples, integers floats, names and values of enums their members, ``"module:name"`` a callable, a
    mapping the dataclass or dict. Nothing else is converted. Raises ``ConfigError`` naming ``path``, what was given and
    what is expected.
    """
    if value is MISSING:
        return value
    # An exact type first, so that 1 stays an integer where `float | int` is declared.
    candidates = sorted(options(declared), key=lambda option: _origin(option) is not type(value))
    failures = []
    for option in candidates:
        try:
            return _coerce_one(value, option, path)
        except _Mismatch:
            continue
        except ConfigError as error:  # something inside the value is wrong: say what, if no other option takes it
            failures.append(error)
    if failures:
        raise failures[0]
    raise ConfigError(f"{path}: {got(value)}, expected {describe(declared)}")


def got(value: Any) -> str:
    """What was given, for messages. Of settings with fields of their own, the class says enough."""
    name = type(value).__name__
    return f"got a {name}" if is_dataclass_instance(value) else f"got {value!r} ({name})"


def describe(declared: Any) -> str:
    """An annotation as a reader would write it."""
    if isinstance(declared, type) and not typing.get_args(declared):
        members = f" ({', '.join(declared.__members__)})" if issubclass(declared, enum.Enum) else ""
        return ("None" if declared is type(None) else declared.__name__) + members
    if typing.get_origin(declared) in (Union, types.UnionType):
        return " | ".join(map(describe, typing.get_args(declared)))
    if typing.get_origin(declared) is Annotated:
        base, *limits = typing.get_args(declared)
        words = [str(limit) for limit in limits if isinstance(limit, Within | Ordered)]
        return " ".join(["finite float" if base is float and words else describe(base), *words]).rstrip()
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(origin, type) and arguments and origin is not Callable:
        return f"{origin.__name__}[{', '.join('...' if a is ... else describe(a) for a in arguments)}]"
    return str(declared).replace("typing.", "").replace("collections.abc.", "")


class _Mismatch(Exception):
    """The value is not of this type at all."""


def _coerce_one(value: Any, declared: Any, path: str) -> Any:
    origin, arguments = _origin(declared), typing.get_args(declared)
    if origin in (Any, object) or isinstance(origin, typing.TypeVar):
        return value
    if origin in (None, type(None)):
        return _require(value is None, value)
    if origin is Literal:
        return _require(value in arguments, value)
    if origin is Annotated:
        inner = _coerce_one if len(options(arguments[0])) == 1 else coerce
        return _within_limits(inner(value, arguments[0], path), value, declared, path)
    if origin is type or origin is Callable:
        found = _coerce_callable(value, path)
        return _require(origin is not type or isinstance(found, type), found)
    if not isinstance(origin, type):
        return value  # an annotation that we cannot judge
    if issubclass(origin, enum.Enum):
        return _coerce_enum(value, origin)
    if typing.is_typeddict(origin):
        _require(isinstance(value, Mapping), value)
        return {key: coerce(item, entry_type(value, origin, key), join(path, str(key))) for key, item in value.items()}
    if origin is float:
        _require(isinstance(value, (int, float)) and not isinstance(value, bool), value)
        return float(value) if isinstance(value, int) else value
    if origin is int:
        return _require(isinstance(value, int) and not isinstance(value, bool), value)
    if origin is Path and isinstance(value, str):
        return Path(value)
    if origin is tuple:
        return _coerce_tuple(value, arguments, path)
    if issubclass(origin, Sequence) and origin is not str:
        _require(isinstance(value, (list, tuple)), value)
        items = [coerce(item, arguments[0] if arguments else Any, join(path, i)) for i, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) and origin is not list else items
    if issubclass(origin, Mapping):
        _require(isinstance(value, Mapping), value)
        key_type, value_type = arguments if len(arguments) == 2 else (Any, Any)
        return {
            coerce(key, key_type, join(path, str(key))): coerce(item, value_type, join(path, str(key)))
            for key, item in value.items()
        }
    if dataclasses.is_dataclass(origin) and isinstance(value, Mapping):
        return _new_dataclass(origin, value, path)
    return _require(isinstance(value, origin), value)


def _require(condition: bool, value: Any) -> Any:
    if not condition:
        raise _Mismatch
    return value


def _within_limits(value: Any, given: Any, declared: Any, path: str) -> Any:
    for limit in typing.get_args(declared)[1:]:
        if isinstance(limit, Within | Ordered) and not limit.allows(value):
            raise ConfigError(f"{path}: got {given!r}, expected {describe(declared)}")
    return value


def _coerce_callable(value: Any, path: str) -> Any:
    if not isinstance(value, str):
        return _require(callable(value), value)
    if ":" not in value:
        raise _Mismatch
    try:
        return resolve_reference(value)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _coerce_enum(value: Any, cls: type[enum.Enum]) -> enum.Enum:
    if isinstance(value, cls):
        return value
    if isinstance(value, str) and value in cls.__members__:
        return cls[value]
    try:
        return cls(value)
    except ValueError:
        raise _Mismatch from None


def _coerce_tuple(value: Any, arguments: tuple[Any, ...], path: str) -> tuple[Any, ...]:
    _require(isinstance(value, (list, tuple)), value)
    if not arguments:
        return tuple(value)
    item_types = (arguments[0],) * len(value) if arguments[-1] is Ellipsis else arguments
    if len(item_types) != len(value):
        raise ConfigError(f"{path}: got {len(value)} values, {value!r}, expected {len(item_types)}")
    return tuple(coerce(item, item_types[i], join(path, i)) for i, item in enumerate(value))


def _new_dataclass(cls: Any, values: Mapping[Any, Any], path: str) -> Any:
    names = field_names(cls)
    for name in values:
        if name not in names:
            raise UnknownFieldError(f"{path}: " + unknown_name_message(f"field of {cls.__name__}", str(name), names))
    types_ = field_types(cls)
    try:
        return cls(**{name: coerce(value, types_[name], join(path, name)) for name, value in values.items()})
    except LabError:
        raise
    except Exception as error:
        raise ConfigError(f"{path}: {cls.__name__} refuses its values: {error}") from error


def is_form_of(declared: Any, abstract: type) -> bool:
    """Whether ``declared``, such as ``dict[str, int]`` or ``list``, is a form of the abstract class."""
    origin = _origin(declared)
    return isinstance(origin, type) and issubclass(origin, abstract) and origin is not str


def _origin(declared: Any) -> Any:
    return typing.get_origin(declared) or declared
