"""Calls that a GPU makes by itself once it has seen them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_WARM_UP = 3
"""Calls before the capture, in which libraries initialise themselves."""


class CapturedCall:
    """A function that is a CUDA graph from its fourth call on; on other devices it is called as it is.

    Every call counts, the first ones too. The function must read what changes from tensors that stay where they are,
    draw no random numbers, and read nothing on the host; gradients are to be set to None before a backward pass.

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

    def __call__(self) -> Tensor:
        """Makes one call and returns its result, valid until the next one."""
        if not self._captures:
            return self._function()
        if self._calls < _WARM_UP:
            self._calls += 1
            return self._warm_up()
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._result = self._function()
        self._graph.replay()
        assert self._result is not None
        return self._result

    def _warm_up(self) -> Tensor:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            result = self._function()
        torch.cuda.current_stream().wait_stream(stream)
        return result
