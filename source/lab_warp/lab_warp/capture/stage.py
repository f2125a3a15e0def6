"""Stages: functions that are captured at their first call and replayed afterwards."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import warp as wp

from lab_warp.capture.context import CaptureContext, CaptureError, Stage, StageReport, capturing_device
from lab_warp.capture.graphs import (
    GraphBuilder,
    Graphs,
    active_builder,
    call_plainly,
    eager_calls_skipped,
    running_plainly,
)
from lab_warp.capture.keys import argument_key
from lab_warp.capture.marks import capturable, describe
from lab_warp.capture.sync_trap import SyncTrap

P = ParamSpec("P")
R = TypeVar("R")
_STAGES = "_captured_stages"


class HasCaptureContext(Protocol):
    """What owns a method decorated with :func:`captured`."""

    @property
    def capture_context(self) -> CaptureContext: ...


Owner = TypeVar("Owner", bound=HasCaptureContext)


class CapturedStage:
    """A function whose Warp launches are captured as graphs at its first call and replayed at later ones.

    The first call captures and then launches, so the function's effects happen exactly once per call and nothing runs
    for the sake of capturing. A call with other arguments is captured too: arrays and tensors count by pointer
    and layout, scalars by value. Everything else that the function reads from Python (attributes, branches, scalars
    passed to a launch) is fixed by then; :meth:`drop_graphs` makes it be read again. Replays return the very
    object that the captured call returned, so return buffers that the owner keeps.

    Called while another stage captures on the same device, a stage becomes part of its graph. While somebody
    else captures the device it runs plainly, as part of that capture.

    Args:
        function: Function of Warp launches; see :class:`CaptureGuard` for what it must not do.
        context: Settings and lifetime, shared by the stages of one environment.
        name: Name in reports and messages; the function's qualified name if None.
        max_captures: Argument sets that may be captured. One more raises: a stage called with fresh buffers or ever
            new scalars would be captured anew each time, some hundred times slower than a replay, and keep every graph.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        context: CaptureContext,
        *,
        name: str | None = None,
        max_captures: int = 8,
    ) -> None:
        self.name = name or describe(function)
        self.context = context
        self.num_captures = 0
        """Captures completed since the stage was made."""
        self._function = function
        self._max_captures = max_captures
        self._graphs: dict[Hashable, Graphs] = {}
        self._hosts: weakref.WeakSet[Stage] = weakref.WeakSet()
        self._status = "not called yet"
        context._add(self)

    @property
    def num_graphs(self) -> int:
        """Graphs held, over all argument sets."""
        return sum(graphs.num_graphs for graphs in self._graphs.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage: capture, replay, or call the function plainly.

        Raises:
            CaptureError: The function did what a graph cannot repeat, or was given too many different arguments.
        """
        builder = active_builder()
        if builder is not None:
            return self._run_inside(builder, args, kwargs)
        context = self.context
        context._running.append(self)
        try:
            if context.device.is_capturing:
                return self._function(*args, **kwargs)
            if not context.enabled:
                return self._run_eagerly(args, kwargs)
            key = argument_key(args, kwargs)
            graphs = self._graphs.get(key)
            return self._capture(key, args, kwargs) if graphs is None else graphs.replay()
        finally:
            context._running.pop()

    def drop_graphs(self, reason: str) -> None:
        """Forget all graphs, also those of stages that this one became a part of; capture at the next call.

        The device is synchronised first.

        Args:
            reason: Why, for the report.

        Raises:
            CaptureError: The stage, or one that it is part of, is running.
        """
        if self in self.context._running:
            raise CaptureError(
                f"The graphs of stage '{self.name}' were to be dropped ({reason}) while it runs and uses them. "
                "Do so between its calls."
            )
        hosts = list(self._hosts)
        self._hosts.clear()
        for host in hosts:
            host.drop_graphs(f"{self.name}: {reason}")
        if self._graphs:
            wp.synchronize_device(self.context.device)
            self._graphs.clear()
            self._status = f"captures at the next call ({reason})"
            self.context._collect_fully = True

    def report(self) -> StageReport:
        """State of this stage."""
        return StageReport(
            stage=self.name,
            device=self.context.device.alias,
            captured=bool(self._graphs),
            reason=self._status if self.context.enabled else "capture is switched off (LAB_CAPTURE=0)",
            num_graphs=self.num_graphs,
            num_captures=self.num_captures,
            islands=tuple(island for graphs in self._graphs.values() for island in graphs.islands),
        )

    def _run_inside(self, builder: GraphBuilder, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        host = builder.stage
        if self.context.device != host.context.device:
            raise CaptureError(
                f"Stage '{self.name}' on {self.context.device.alias} was called while stage '{host.name}' captures on "
                f"{host.context.device.alias}. A graph holds the work of one device."
            )
        self._hosts.add(host)
        self._status = f"part of stage '{host.name}'"
        return self._function(*args, **kwargs)

    def _run_eagerly(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        with ExitStack() as stack:
            stack.enter_context(running_plainly(self.context.device))
            if self.context.sync_debug:
                stack.enter_context(SyncTrap(self.name, self.context.device))
            return self._function(*args, **kwargs)

    def _capture(self, key: Hashable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if len(self._graphs) >= self._max_captures:
            raise CaptureError(
                f"Stage '{self.name}' was called with new arguments, {key}, after capturing {self._max_captures} "
                "sets of them, the most that it may. Pass persistent buffers, written in place, and keep values that "
                "change in device arrays; or raise max_captures."
            )
        graphs = Graphs(self, (args, kwargs))
        try:
            GraphBuilder(graphs).build(self._function, args, kwargs)
        except BaseException as error:
            self._status = f"capture failed: {type(error).__name__}: {error}"
            raise
        self._graphs[key] = graphs
        self.num_captures += 1
        self._status = "captured"
        return graphs.result


def captured(method: Callable[Concatenate[Owner, P], R]) -> Callable[Concatenate[Owner, P], R]:
    """Make a method a :class:`CapturedStage` of each instance.

    The instance must have a ``capture_context``. An override and the method that it extends are separate stages.
    """

    @functools.wraps(method)
    def staged(self: Owner, *args: P.args, **kwargs: P.kwargs) -> R:
        stages = self.__dict__.setdefault(_STAGES, {})
        stage = stages.get(method)
        if stage is None:
            context = getattr(self, "capture_context", None)
            if not isinstance(context, CaptureContext):
                raise TypeError(
                    f"{method.__qualname__} is decorated with @captured, so {type(self).__qualname__} needs an "
                    f"attribute 'capture_context' that holds a CaptureContext; found {context!r}."
                )
            stage = stages[method] = CapturedStage(method.__get__(self), context, name=method.__qualname__)
        return stage(*args, **kwargs)

    return staged


def captured_stages(owner: object) -> list[CapturedStage]:
    """Stages of the decorated methods that ``owner`` has called so far."""
    return list(vars(owner).get(_STAGES, {}).values())


def eager(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that cannot be captured, at this place of a stage.

    While a stage captures, its graph so far is closed and launched, the function is called, and another graph begins.
    Each replay repeats the call between the two graphs, with the arguments given now, and discards its result; so the
    function should write its results in place. Outside a capture this is a plain call.

    Raises:
        CaptureError: Somebody else captures (the function is not called), or this is the body of a conditional.
    """
    builder = active_builder()
    if builder is not None:
        return builder.call_eagerly(function, args, kwargs, capturable(function, kwargs).reason)
    return _call_plainly(function, args, kwargs)


class Island:
    """A function that runs between two graphs, with a name for the report, to hand to :func:`eager`."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__qualname__ = name
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def capture_torch(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call torch code, such as a network, at this place of a stage; captured where possible.

    On CUDA its work becomes part of the graph, its temporaries in a memory pool of their own. On the CPU, where Warp
    cannot capture torch, it is called like :func:`eager`. Either way it must write its results in place into tensors
    that exist already, must not draw random numbers, and must not wait for the device. Libraries that it uses besides
    cuBLAS must have been initialised, for example by a call of it before the first capture.

    Raises:
        CaptureError: As for :func:`eager`.
    """
    builder = active_builder()
    if builder is None:
        return _call_plainly(function, args, kwargs)
    if builder.stage.context.device.is_cuda:
        return builder.call_torch(function, args, kwargs)
    return builder.call_eagerly(function, args, kwargs, "torch cannot be captured on the CPU")


def _call_plainly(function: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
    if eager_calls_skipped():
        return cast("R", None)  # what it would return is not there yet, and nobody keeps it
    device = capturing_device()
    if device is not None:
        raise CaptureError(
            f"{describe(function)} was to be called eagerly, but {device.alias} is captured by code that is no stage, "
            "whose capture cannot be split. Call the stage itself, outside that capture."
        )
    return call_plainly(function, args, kwargs)
