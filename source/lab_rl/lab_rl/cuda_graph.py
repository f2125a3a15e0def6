"""Calls that a GPU makes by itself once it has seen them."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_WARM_UP = 3
"""Calls before the capture, in which libraries initialise themselves."""


class CapturedCall:
    """A function that is a CUDA graph from its fourth call on; on other devices it is called as it is.

    Every call counts, the first ones too. The function must read what changes from tensors that stay where they are,
    and read nothing on the host; random numbers come from torch's default generator, and gradients are to be set to
    None before a backward pass. Called while somebody else captures, it becomes part of that graph. If its capture
    fails, a warning says why, and the function is called as it is from then on.

    Args:
        function: Takes nothing; what it returns is overwritten by the next call.
        device: Where it computes.
        enabled: Whether to capture at all.
    """

    def __init__(self, function: Callable[[], Tensor], device: torch.device, enabled: bool = True) -> None:
        self._function = function
        self._captures = enabled and device.type == "cuda"
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._result: Tensor | None = None
        self.failure = ""
        """Why the capture failed; empty where it did not."""

    def __call__(self) -> Tensor:
        """Makes one call and returns its result, valid until the next one."""
        if not self._captures or torch.cuda.is_current_stream_capturing():
            return self._function()
        if self._calls < _WARM_UP:
            self._calls += 1
            return self._warm_up()
        if self._graph is None and not self._capture():
            return self._function()
        assert self._graph is not None and self._result is not None
        self._graph.replay()
        return self._result

    def forget(self) -> None:
        """Drops the graph: the next calls run as the first ones did, and are captured anew."""
        self._calls, self._graph, self._result = 0, None, None

    def _warm_up(self) -> Tensor:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self._function()
        torch.cuda.current_stream().wait_stream(stream)
        return result

    def _capture(self) -> bool:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            # Other threads may go on using the device meanwhile.
            with _no_collection(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._result = self._function()
        except RuntimeError as error:
            _leave_capture(stream)
            cause = error.__context__ or error  # behind the one that says that the capture is no longer valid
            self.failure = f"{type(cause).__name__}: {cause}"
            self._captures, self._result = False, None
            name = getattr(self._function, "__qualname__", repr(self._function))
            warnings.warn(f"{name} runs without a graph, since its capture failed: {self.failure}", stacklevel=3)
            return False
        self._graph = graph
        return True


def _leave_capture(stream: torch.cuda.Stream) -> None:
    """Brings torch back to ``stream`` from a capture that could not end: it would stay on the stream of that, and its
    generator would count on a graph until one is captured."""
    torch.cuda.set_stream(stream)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device=stream.device)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Inside, nothing on the device is freed by the garbage collector, which a capture does not survive."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def tensor_cores(enabled: bool) -> Iterator[None]:
    """Inside, float32 matrix products on a GPU round their factors to TF32 (10 bits of mantissa), or do not."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = enabled
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
