"""Stages: functions that are recorded at their first call and replayed afterwards."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Mapping
from contextlib import ExitStack
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import warp as wp

from lab_warp.capture.capturable import capturability, describe
from lab_warp.capture.context import CaptureContext, CaptureError, StageReport, capturing_device
from lab_warp.capture.keys import argument_key
from lab_warp.capture.recording import Recorder, Recording, active_recorder, call_plainly, running_plainly
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
    """A function whose Warp launches are recorded as graphs at its first call and replayed at later ones.

    The first call records and then launches, so the function's effects happen exactly once per call and nothing runs
    for the sake of recording. A call with other arguments makes another recording: arrays and tensors count by pointer
    and layout, scalars by value. Everything else that the function reads from Python (attributes, branches, scalars
    passed to a launch) is fixed at recording; :meth:`drop_recordings` makes it be read again. Replays return the very
    object that the recording call returned, so return buffers that the owner keeps.

    Called while another stage records on the same device, a stage becomes part of that recording. While somebody
    else captures the device it runs plainly, as part of that capture.

    Args:
        function: Function of Warp launches; see :class:`RecordingGuard` for what it must not do.
        context: Settings and lifetime, shared by the stages of one environment.
        name: Name in reports and messages; the function's qualified name if None.
        max_recordings: Argument sets that may be recorded. One more raises: a stage called with fresh buffers or ever
            new scalars would record anew each time, some hundred times slower than a replay, and keep every graph.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        context: CaptureContext,
        *,
        name: str | None = None,
        max_recordings: int = 8,
    ) -> None:
        self.name = name or describe(function)
        self.context = context
        self.num_recordings = 0
        """Recordings completed since the stage was made."""
        self._function = function
        self._max_recordings = max_recordings
        self._recordings: dict[Hashable, Recording] = {}
        self._hosts: weakref.WeakSet[CapturedStage] = weakref.WeakSet()
        self._status = "not called yet"
        context._add(self)

    @property
    def num_graphs(self) -> int:
        """Graphs held, over all argument sets."""
        return sum(recording.num_graphs for recording in self._recordings.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the stage: record, replay, or call the function plainly.

        Raises:
            CaptureError: The function did what a graph cannot repeat, or was given too many different arguments.
        """
        recorder = active_recorder()
        if recorder is not None:
            return self._run_inside(recorder, args, kwargs)
        context = self.context
        context._running.append(self)
        try:
            if context.device.is_capturing:
                return self._function(*args, **kwargs)
            if not context.enabled:
                return self._run_eagerly(args, kwargs)
            key = argument_key(args, kwargs)
            recording = self._recordings.get(key)
            return self._record(key, args, kwargs) if recording is None else recording.replay()
        finally:
            context._running.pop()

    def drop_recordings(self, reason: str) -> None:
        """Forget all recordings, also those of stages that this one became a part of; record at the next call.

        The device is synchronised first.

        Args:
            reason: Why, for the report.

        Raises:
            CaptureError: The stage, or one that it is part of, is running.
        """
        if self in self.context._running:
            raise CaptureError(
                f"The recordings of stage '{self.name}' were to be dropped ({reason}) while it runs and uses them. "
                "Do so between its calls."
            )
        hosts = list(self._hosts)
        self._hosts.clear()
        for host in hosts:
            host.drop_recordings(f"{self.name}: {reason}")
        if self._recordings:
            wp.synchronize_device(self.context.device)
            self._recordings.clear()
            self._status = f"records at the next call ({reason})"
            self.context._collect_fully = True

    def report(self) -> StageReport:
        """State of this stage."""
        return StageReport(
            stage=self.name,
            device=self.context.device.alias,
            recorded=bool(self._recordings),
            reason=self._status if self.context.enabled else "capture is switched off (LAB_CAPTURE=0)",
            num_graphs=self.num_graphs,
            num_recordings=self.num_recordings,
            islands=tuple(island for recording in self._recordings.values() for island in recording.islands),
        )

    def _run_inside(self, recorder: Recorder, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        host = recorder.stage
        if self.context.device != host.context.device:
            raise CaptureError(
                f"Stage '{self.name}' on {self.context.device.alias} was called while stage '{host.name}' records on "
                f"{host.context.device.alias}. A recording holds the work of one device."
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

    def _record(self, key: Hashable, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if len(self._recordings) >= self._max_recordings:
            raise CaptureError(
                f"Stage '{self.name}' was called with new arguments, {key}, after recording {self._max_recordings} "
                "sets of them, the most that it may. Pass persistent buffers, written in place, and keep values that "
                "change in device arrays; or raise max_recordings."
            )
        recording = Recording(self, (args, kwargs))
        try:
            Recorder(recording).record(self._function, args, kwargs)
        except BaseException as error:
            self._status = f"recording failed: {type(error).__name__}: {error}"
            raise
        self._recordings[key] = recording
        self.num_recordings += 1
        self._status = "recorded"
        return recording.result


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
    """Call a function that cannot be recorded, at this place of a stage.

    While a stage records, its graph so far is closed and launched, the function is called, and another graph begins.
    Each replay repeats the call between the two graphs, with the arguments given now, and discards its result; so the
    function should write its results in place. Outside a recording this is a plain call.

    Raises:
        CaptureError: Somebody else captures (the function is not called), or this is the body of a conditional.
    """
    recorder = active_recorder()
    if recorder is not None:
        return recorder.call_eagerly(function, args, kwargs, capturability(function, kwargs).reason)
    return _call_plainly(function, args, kwargs)


def record_torch(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call torch code, such as a network, at this place of a stage; recorded where possible.

    On CUDA its work becomes part of the graph, its temporaries in a memory pool of their own. On the CPU, where Warp
    cannot record torch, it is called like :func:`eager`. Either way it must write its results in place into tensors
    that exist already, must not draw random numbers, and must not wait for the device. Libraries that it uses besides
    cuBLAS must have been initialised, for example by a call of it before the first recording.

    Raises:
        CaptureError: As for :func:`eager`.
    """
    recorder = active_recorder()
    if recorder is None:
        return _call_plainly(function, args, kwargs)
    if recorder.stage.context.device.is_cuda:
        return recorder.call_torch(function, args, kwargs)
    return recorder.call_eagerly(function, args, kwargs, "torch cannot be recorded on the CPU")


def _call_plainly(function: Callable[..., R], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> R:
    device = capturing_device()
    if device is not None:
        raise CaptureError(
            f"{describe(function)} was to be called eagerly, but {device.alias} is captured by code that is no stage, "
            "whose capture cannot be split. Call the stage itself, outside that capture."
        )
    return call_plainly(function, args, kwargs)
