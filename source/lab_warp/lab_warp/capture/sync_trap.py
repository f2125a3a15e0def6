"""Finds host synchronisations in code that runs eagerly (``LAB_SYNC_DEBUG=1``)."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NoReturn

import torch
import warp as wp

from lab_warp.capture.context import CaptureError
from lab_warp.capture.patching import (
    ARRAY_HOST_READS,
    SYNCHRONISATIONS,
    TENSOR_HOST_READS,
    TorchCalls,
    TorchOperations,
    replace,
)

_aten = torch.ops.aten
_SYNCHRONISING_OPERATIONS = {
    _aten._local_scalar_dense,  # item(), float(), bool(), `if tensor:`
    _aten.nonzero,
    _aten.masked_select,
    _aten.equal,
    _aten.unique_consecutive,
    _aten._unique2,
}
# An eager conditional must read its condition; a captured one does not. That is no hidden synchronisation.
_CONDITIONALS = {wp.capture_if.__code__, wp.capture_while.__code__}


class SyncTrap:
    """Context manager that raises where the host would wait for the device.

    Warp's host reads and ``wp.synchronize*`` raise :class:`CaptureError`. On CUDA torch's own trap is armed, which
    raises RuntimeError. On the CPU, where nothing waits, the torch operations raise that would wait on CUDA (``item``,
    ``nonzero``, boolean indexing, ...), so that a machine without a GPU finds them too.
    """

    def __init__(self, stage: str, device: wp.Device) -> None:
        self._stage = stage
        self._device = device
        self._thread = threading.get_ident()
        self._restore = ExitStack()

    def __enter__(self) -> SyncTrap:
        with ExitStack() as undo:
            for owner in (wp.array, wp.indexedarray):
                for name in ARRAY_HOST_READS:
                    replace(undo, owner, name, self._forbid_on_array)
            for name in SYNCHRONISATIONS:
                replace(undo, wp, name, self._forbid_call)
            if self._device.is_cuda:
                undo.callback(torch.cuda.set_sync_debug_mode, torch.cuda.get_sync_debug_mode())
                torch.cuda.set_sync_debug_mode("error")
            else:
                undo.enter_context(TorchCalls(self._check_torch_call))
                undo.enter_context(TorchOperations(self._check_torch_operation))
            self._restore = undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore.close()

    def _raise(self, what: str) -> NoReturn:
        raise CaptureError(f"LAB_SYNC_DEBUG=1: stage '{self._stage}' makes the host wait for the device in {what}.")

    def _forbid_on_array(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def trapped(array: wp.array, *args: Any, **kwargs: Any) -> Any:
            if array.device == self._device and threading.get_ident() == self._thread:
                self._raise(f"wp.array.{name}()")
            return original(array, *args, **kwargs)

        return trapped

    def _forbid_call(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def trapped(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() == self._thread and sys._getframe(1).f_code not in _CONDITIONALS:
                self._raise(f"wp.{name}()")
            return original(*args, **kwargs)

        return trapped

    def _check_torch_call(self, function: Callable[..., Any]) -> None:
        if function in TENSOR_HOST_READS:
            self._raise(f"torch.Tensor.{function.__name__}()")

    def _check_torch_operation(self, operation: Any, args: tuple[Any, ...]) -> None:
        packet = getattr(operation, "overloadpacket", None)
        by_mask = packet in (_aten.index, _aten.index_put_, _aten.index_put) and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
        )
        # Writing one value under a mask becomes a masked fill, which does not wait.
        fills = packet is not _aten.index and by_mask and args[2].numel() == 1
        if packet in _SYNCHRONISING_OPERATIONS or (by_mask and not fills):
            self._raise(f"torch operation {operation}")
