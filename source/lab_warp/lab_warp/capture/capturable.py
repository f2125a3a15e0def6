"""Marks functions, classes and methods that a graph cannot hold."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from lab_warp.capture.context import CaptureError, capturing_device

_T = TypeVar("_T", bound=Callable[..., Any])
_MARK = "__warp_capturable__"


class Capturability(NamedTuple):
    """Whether something may be captured, and if not, why."""

    capturable: bool
    reason: str


class WarpCapturable:
    """Decorator: this function, class or method cannot, or not always, be captured.

    Whoever composes a stage asks :func:`capturability` and calls what is not capturable through
    :func:`lab_warp.eager`; called inside a capture all the same, it raises :class:`CaptureError` with the reason.
    What carries no mark is capturable. On a class the mark is about ``__call__``; other methods, such as ``reset``,
    are capturable unless they carry their own. An instance may decide for itself by setting ``warp_capturable`` to
    False in ``__init__``.

    Args:
        capturable: False, or a predicate over the parameters that returns whether this instance of the term can be
            captured. The predicate sees the defaults of the signature too.
        reason: Why it cannot be captured, in words for the capture report.

    Raises:
        ValueError: No reason is given.

    Example::

        @WarpCapturable(lambda params: params["sensor_cfg"] is None, reason="the ray caster is refreshed on the host")
        def base_height_l2(env, out, target_height, sensor_cfg=None): ...
    """

    def __init__(self, capturable: bool | Callable[[Mapping[str, Any]], bool], *, reason: str) -> None:
        if not reason:
            raise ValueError("WarpCapturable needs a reason: the capture report shows it to the user.")
        self._capturable = capturable
        self._reason = reason

    def __call__(self, target: _T) -> _T:
        if isinstance(target, type):
            call = self._guarded(target.__call__)
            for name, value in (("__call__", call), (_MARK, self)):
                setattr(target, name, value)
            return target  # pyright: ignore[reportReturnType]
        guarded = self._guarded(target)
        setattr(guarded, _MARK, self)
        return guarded  # pyright: ignore[reportReturnType]

    def decide(self, params: Mapping[str, Any]) -> Capturability:
        """Capturability for these parameters."""
        capturable = self._capturable(params) if callable(self._capturable) else self._capturable
        return Capturability(capturable, "" if capturable else self._reason)

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            device = capturing_device()
            if device is not None:
                verdict = self.decide(_parameters(signature, args, kwargs))
                if not verdict.capturable:
                    raise CaptureError(
                        f"{describe(function)} cannot be captured ({verdict.reason}), but was called while "
                        f"{device.alias} is capturing. Call it through lab_warp.eager."
                    )
            return function(*args, **kwargs)

        return guarded


def capturability(function: Callable[..., Any], params: Mapping[str, Any] | None = None) -> Capturability:
    """Whether ``function``, configured with ``params``, may be part of a capture.

    Args:
        function: A function, a bound method, a term class or an instance of one; decorators that set ``__wrapped__``
            are looked through.
        params: Keyword parameters that it will be called with.
    """
    if getattr(function, "__dict__", {}).get("warp_capturable") is False:
        return Capturability(False, f"this {type(function).__name__} set warp_capturable to False")
    layer: Any = function
    while layer is not None:
        mark = getattr(layer, _MARK, None)
        if isinstance(mark, WarpCapturable):
            return mark.decide({**_defaults(function), **(params or {})})
        layer = getattr(layer, "__wrapped__", None)
    return Capturability(True, "")


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
