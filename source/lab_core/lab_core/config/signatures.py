"""Types of the parameters of functions, for arguments that stand in configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, Optional, TypedDict, get_origin

_TYPES_OF_DEFAULTS: dict[type, Any] = {bool: bool, str: str, int: float, float: float}


def parameter_types(function: Callable[..., Any]) -> Any:
    """Returns the types of the parameters of ``function`` as a TypedDict, against which arguments can be checked.

    A parameter without an annotation, or with one that means nothing at run time, is of its default's type.
    """
    inner: Any = inspect.unwrap(function)
    names = getattr(inner, "__globals__", None) or getattr(type(inner).__call__, "__globals__", {})
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # some functions in C tell no signature
        parameters = {}
    types = {name: _type_of(parameter, names) for name, parameter in parameters.items()}
    return TypedDict("params", types)  # pyright: ignore[reportArgumentType]


def _type_of(parameter: Parameter, names: dict[str, Any]) -> Any:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, names)
        except Exception:  # imported for type checkers only, or defined within a function
            annotation = Parameter.empty
    if annotation is Parameter.empty:
        return _TYPES_OF_DEFAULTS.get(type(parameter.default), Any)
    if not (callable(annotation) or get_origin(annotation)):  # no type at all
        return Any
    return Optional[annotation] if parameter.default is None else annotation  # noqa: UP045
