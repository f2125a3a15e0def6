"""The parameters of a term beside the signature of its function."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

from lab_core.config import parameter_types
from lab_core.errors import unknown_name_message
from lab_core.managers.errors import TermError


def complete_params(
    func: Callable[..., Any], params: dict[str, Any], leading: Sequence[str], what: str
) -> dict[str, Any]:
    """Returns ``params`` with an own copy of every default that they omit.

    Args:
        func: Function, or class whose ``__call__`` is meant.
        params: Keyword arguments of the term.
        leading: Arguments that the manager passes by position, ``("env",)`` or ``("env", "mask")``.
        what: The manager and term, for messages.

    Raises:
        TermError: ``func`` does not take the leading arguments, a mandatory parameter is missing, or one is unknown.
    """
    parameters = _parameters(func)
    name = getattr(func, "__name__", repr(func))
    taken, rest = parameters[: len(leading)], parameters[len(leading) :]
    given = ", ".join(parameter.name for parameter in taken)
    positional = all(p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for p in taken)
    # The name of the first argument is free. The second one tells a term that expects a mask from one that does not.
    if len(taken) < len(leading) or not positional or [p.name for p in taken[1:]] != list(leading[1:]):
        raise TermError(f"{what}: {name} must take ({', '.join(leading)}, ...) first, but it begins with ({given}).")

    accepts_any = any(p.kind is Parameter.VAR_KEYWORD for p in rest)
    named = {p.name: p for p in rest if p.kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)}
    mandatory = [p.name for p in named.values() if p.default is Parameter.empty]
    optional = [p.name for p in named.values() if p.default is not Parameter.empty]
    takes = f"{name} takes: mandatory {mandatory}, optional {optional}."
    missing = [key for key in mandatory if key not in params]
    if missing:
        raise TermError(f"{what}: params lack {missing}. {takes}")
    for key in params:
        if key not in named and not accepts_any:
            raise TermError(f"{what}: {unknown_name_message('parameter', key, named)} {takes}")
    return params | {key: copy.deepcopy(named[key].default) for key in optional if key not in params}


def param_types(func: Callable[..., Any]) -> Any:
    """Returns the types of the parameters of a function, or of a class whose ``__call__`` is meant; see
    :func:`lab_core.config.parameter_types`."""
    return parameter_types(func.__call__ if isinstance(func, type) else func)


def _parameters(func: Callable[..., Any]) -> list[Parameter]:
    parameters = list(inspect.signature(func.__call__ if isinstance(func, type) else func).parameters.values())
    return parameters[1:] if isinstance(func, type) else parameters  # without self
