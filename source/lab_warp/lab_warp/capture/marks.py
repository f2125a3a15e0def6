"""Marks functions, classes and methods that a graph cannot hold."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lab_core.capability import CAPABLE, Capability
from lab_warp.capture.context import CaptureError, capturing_device

_T = TypeVar("_T", bound=Callable[..., Any])
_MARK = "__not_capturable__"


class not_capturable:
    """Decorator: this function, class or method cannot, or not always, be captured.

    Whoever composes a stage asks :func:`capturable` and calls what is not through :func:`lab_warp.eager`; called inside
    a capture all the same, it raises :class:`CaptureError` with the reason. What carries no mark is capturable. On a
    class the mark is about ``__call__``; other methods, such as ``reset``, are capturable unless they carry their own.
    An instance may decide for itself: ``self.capturable = Capability(False, reason)`` in its ``__init__``.

    Args:
        reason: Why it cannot be captured, in words for the capture report.
        unless: Returns whether it can for parameters, which include the defaults of the signature. None: never.

    Raises:
        ValueError: The reason is empty.

    Example::

        @not_capturable("the ray caster is refreshed on the host", unless=lambda params: params["sensor_cfg"] is None)
        def base_height_l2(env, out, target_height, sensor_cfg=None): ...
    """

    def __init__(self, reason: str, *, unless: Callable[[Mapping[str, Any]], bool] | None = None) -> None:
        if not reason:
            raise ValueError("not_capturable needs a reason: the capture report shows it to the user.")
        self._verdict = Capability(False, reason)
        self._unless = unless

    def __call__(self, target: _T) -> _T:
        if isinstance(target, type):
            call = self._guarded(target.__call__)
            for name, value in (("__call__", call), (_MARK, self)):
                setattr(target, name, value)
            return target  # pyright: ignore[reportReturnType]
        guarded = self._guarded(target)
        setattr(guarded, _MARK, self)
        return guarded  # pyright: ignore[reportReturnType]

    def decide(self, params: Mapping[str, Any]) -> Capability:
        """Returns the verdict for these parameters."""
        return CAPABLE if self._unless is not None and self._unless(params) else self._verdict

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            device = capturing_device()
            if device is not None:
                verdict = self.decide(_parameters(signature, args, kwargs))
                if not verdict:
                    raise CaptureError(
                        f"{describe(function)} cannot be captured ({verdict.reason}), but was called while "
                        f"{device.alias} is capturing. Call it through lab_warp.eager."
                    )
            return function(*args, **kwargs)

        return guarded


def capturable(function: Callable[..., Any], params: Mapping[str, Any] | None = None) -> Capability:
    """Returns whether ``function``, configured with ``params``, may be part of a capture.

    Args:
        function: A function, a bound method, a term class or an instance of one; decorators that set ``__wrapped__``
            are looked through.
        params: Keyword parameters that it will be called with.
    """
    own = getattr(function, "__dict__", {}).get("capturable")
    if isinstance(own, Capability) and not own:
        return own
    layer: Any = function
    while layer is not None:
        mark = getattr(layer, _MARK, None)
        if isinstance(mark, not_capturable):
            return mark.decide({**_defaults(function), **(params or {})})
        layer = getattr(layer, "__wrapped__", None)
    return CAPABLE


def describe(function: Callable[..., Any]) -> str:
    """Readable name of a callable."""
    if isinstance(function, functools.partial):
        return describe(function.func)
    return getattr(function, "__qualname__", type(function).__qualname__).rsplit("<locals>.", 1)[-1]


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    target = function.__call__ if isinstance(function, type) else function
    parameters = inspect.signature(target).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _parameters(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    params = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            params.update(params.pop(parameter.name))
    return params
