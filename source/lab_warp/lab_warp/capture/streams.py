"""Order between Warp's stream and torch's current stream of one CUDA device.

Torch's default stream is CUDA's legacy stream, which orders itself with Warp's own (blocking) stream and can never be
captured. So stages stay on Warp's stream, and explicit waits are needed only where torch runs on a stream of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import warp as wp

_NO_WAIT = nullcontext()


def warp_stream_as_torch(device: wp.Device) -> torch.cuda.ExternalStream:
    """Torch handle of Warp's current stream."""
    return torch.cuda.ExternalStream(device.stream.cuda_stream, device=f"cuda:{device.ordinal}")


def warp_turn(device: wp.Device) -> AbstractContextManager[None]:
    """Warp work inside runs after torch's earlier work and before its later work."""
    side_stream = _side_stream(device)
    return _NO_WAIT if side_stream is None else _between(side_stream, warp_stream_as_torch(device))


def torch_turn(device: wp.Device) -> AbstractContextManager[None]:
    """Torch work inside runs after Warp's earlier work and before its later work."""
    side_stream = _side_stream(device)
    return _NO_WAIT if side_stream is None else _between(warp_stream_as_torch(device), side_stream)


@contextmanager
def _between(outer: torch.cuda.Stream, inner: torch.cuda.Stream) -> Iterator[None]:
    inner.wait_stream(outer)
    try:
        yield
    finally:
        outer.wait_stream(inner)


def _side_stream(device: wp.Device) -> torch.cuda.Stream | None:
    """Torch's current stream if CUDA does not order it with Warp's, else None."""
    if not device.is_cuda or not torch.cuda.is_initialized():
        return None
    stream = torch.cuda.current_stream(device.ordinal)
    same = stream.cuda_stream == device.stream.cuda_stream
    ordered = stream.cuda_stream == 0 and device.stream.is_blocking
    return None if same or ordered else stream
