"""One call captured as graphs and the eager calls between them, and its replay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import warp as wp

from lab_warp.capture.context import CaptureError, Stage
from lab_warp.capture.guard import CaptureGuard
from lab_warp.capture.marks import describe
from lab_warp.capture.streams import torch_turn, warp_stream_as_torch, warp_turn
from lab_warp.capture.sync_trap import SyncTrap


class Graphs:
    """What a stage repeats for one set of arguments: graphs and eager calls, in order.

    Args:
        stage: The stage that captures.
        arguments: What the captured call was given; kept alive as long as the graphs that use it.
    """

    def __init__(self, stage: Stage, arguments: object) -> None:
        self.stage = stage
        self.result: Any = None
        self._arguments = arguments
        self._steps: list[wp.Graph | _EagerCall] = []
        self._torch_pool: torch.cuda.MemPool | None = None

    @property
    def num_graphs(self) -> int:
        return sum(isinstance(step, wp.Graph) for step in self._steps)

    @property
    def islands(self) -> tuple[str, ...]:
        return tuple(step.label for step in self._steps if isinstance(step, _EagerCall))

    def replay(self) -> Any:
        """Repeat the captured call; return what it returned when it was captured."""
        for step in self._steps:
            if isinstance(step, wp.Graph):
                self._launch(step)
            else:
                self._call(step)
        return self.result

    def add_graph(self, graph: wp.Graph) -> None:
        """Launch a finished graph and append it."""
        self._launch(graph)
        self._steps.append(graph)

    def add_eager_call(self, call: _EagerCall) -> Any:
        """Make an eager call and append it."""
        result = self._call(call)
        self._steps.append(call)
        return result

    def torch_pool(self) -> torch.cuda.MemPool:
        """Memory of torch's temporaries inside the graphs, which nothing else may use between replays."""
        if self._torch_pool is None:
            self._torch_pool = torch.cuda.MemPool()
        return self._torch_pool

    def _launch(self, graph: wp.Graph) -> None:
        with warp_turn(self.stage.context.device):
            wp.capture_launch(graph)

    def _call(self, call: _EagerCall) -> Any:
        with SyncTrap(self.stage.name, self.stage.context.device) if self.stage.context.sync_debug else nullcontext():
            return call.function(*call.args, **call.kwargs)


@dataclass(frozen=True)
class _EagerCall:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    label: str


class GraphBuilder:
    """Captures one call. At most one builder is active in a thread."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        self._guard = CaptureGuard(graphs.stage.name, graphs.stage.context.device)
        self._capturing = False

    @property
    def stage(self) -> Stage:
        return self._graphs.stage

    @property
    def device(self) -> wp.Device:
        return self.stage.context.device

    def build(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Capture ``function(*args, **kwargs)``, running it exactly once, and keep its result.

        Whatever it raises is passed on; the device is not capturing then, and the graph begun last is dropped unrun.
        """
        with ExitStack() as stack:
            stack.enter_context(self.stage.context._collector_paused())
            stack.enter_context(self._guard)
            _initialise_cublas(self.device)
            stack.callback(_set_active, active_builder())
            stack.callback(self._abandon)
            _set_active(self)
            self._begin()
            self._graphs.result = function(*args, **kwargs)
            self._end()

    def call_eagerly(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], reason: str
    ) -> Any:
        """Close and run the graph, call the function, and begin the next graph."""
        if self._guard.conditional_depth:
            raise CaptureError(
                f"Stage '{self.stage.name}' called {describe(function)} eagerly inside wp.capture_if or "
                "wp.capture_while, whose bodies must be capturable as a whole. Call it before or after the conditional."
            )
        label = f"{describe(function)} ({reason})" if reason else describe(function)
        self._end()
        _set_active(None)  # a stage that the function calls captures graphs of its own
        try:
            with self._guard.suspended():
                result = self._graphs.add_eager_call(_EagerCall(function, args, kwargs, label))
        finally:
            _set_active(self)
        self._begin()
        return result

    def call_torch(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call torch code so that its CUDA work becomes part of the graph."""
        with (
            self._guard.suspended(),
            torch.cuda.stream(warp_stream_as_torch(self.device)),
            torch.cuda.use_mem_pool(self._graphs.torch_pool(), device=self.device.ordinal),
        ):
            return function(*args, **kwargs)

    def _begin(self) -> None:
        # Relaxed: torch may load kernels and allocate in `call_torch`. The guard catches what would go wrong here.
        wp.capture_begin(device=self.device, capture_mode=wp.CaptureMode.RELAXED)
        self._capturing = True

    def _end(self) -> None:
        self._capturing = False
        graph = wp.capture_end(device=self.device)
        with self._guard.suspended():
            self._graphs.add_graph(graph)

    def _abandon(self) -> None:
        if not self._capturing:
            return
        self._capturing = False
        try:
            wp.capture_end(device=self.device)
        except RuntimeError:
            pass  # CUDA had already invalidated this capture; the error that did so is on its way up


def _initialise_cublas(device: wp.Device) -> None:
    # It cannot initialise itself during a capture, where `call_torch` may be the first to need it.
    if device.is_cuda and torch.cuda.is_initialized():
        with torch.cuda.device(device.ordinal):
            torch.cuda.current_blas_handle()


class _ThreadState(threading.local):
    builder: GraphBuilder | None = None
    plain_device: wp.Device | None = None
    skips_eager_calls: bool = False


_state = _ThreadState()


def active_builder() -> GraphBuilder | None:
    """Returns the builder that captures in this thread now, if any."""
    return _state.builder


def _set_active(builder: GraphBuilder | None) -> None:
    _state.builder = builder


@contextmanager
def skipping_eager_calls() -> Iterator[None]:
    """Inside, in this thread, :func:`eager` and :func:`capture_torch` call nothing and return None.

    For a capture that is dropped, made only to load the kernels that it launches: code that cannot be captured, such
    as a network, has no part in it.
    """
    outer = _state.skips_eager_calls
    _state.skips_eager_calls = True
    try:
        yield
    finally:
        _state.skips_eager_calls = outer


def eager_calls_skipped() -> bool:
    """Returns whether :func:`skipping_eager_calls` holds."""
    return _state.skips_eager_calls


@contextmanager
def running_plainly(device: wp.Device) -> Iterator[None]:
    """A stage of this device runs inside without capture."""
    outer = _state.plain_device
    _state.plain_device = device
    try:
        with warp_turn(device) if outer is None else nullcontext():
            yield
    finally:
        _state.plain_device = outer


def call_plainly(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that may use torch, after and before the Warp work around it."""
    device = _state.plain_device
    with torch_turn(device) if device is not None else nullcontext():
        return function(*args, **kwargs)
