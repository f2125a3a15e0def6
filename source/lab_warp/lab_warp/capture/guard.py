"""What raises while a stage is captured.

A capture on the CPU executes nothing: a host read returns old data, a torch operation runs once and is missing from
every replay, and Warp reports neither. The guard makes both raise, on CUDA too, where they would break the capture.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn

import warp as wp

from lab_warp.capture.context import CaptureError
from lab_warp.capture.patching import (
    ARRAY_HOST_READS,
    SYNCHRONISATIONS,
    TENSOR_HOST_READS,
    TorchCalls,
    TorchOperations,
    replace,
    taken_off,
)


class CaptureGuard:
    """Context manager around a capture; raises :class:`CaptureError` at what the graph cannot repeat.

    Forbidden, in the thread that captures: host reads of arrays on the captured device (``numpy``, ``list``, ``cptr``,
    the array and DLPack protocols), ``assign`` from host data, ``wp.synchronize*``, ``wp.capture_launch``, and every
    torch operation except those that only make a view (so ``wp.to_torch`` and ``wp.from_torch`` stay legal).
    """

    def __init__(self, stage: str, device: wp.Device) -> None:
        self._stage = stage
        self._device = device
        self._thread = threading.get_ident()
        self._suspended = 0
        self._torch_modes = (TorchCalls(self._check_torch_call), TorchOperations(self._check_torch_operation))
        self._restore = ExitStack()
        self.conditional_depth = 0
        """How many bodies of ``wp.capture_if`` and ``wp.capture_while`` enclose what is being captured."""

    def __enter__(self) -> CaptureGuard:
        with ExitStack() as undo:
            for owner in (wp.array, wp.indexedarray):
                for name in ARRAY_HOST_READS:
                    replace(undo, owner, name, self._forbid_on_array)
                replace(undo, owner, "assign", self._forbid_host_assign)
            for name in ("cptr", "__dlpack__"):
                replace(undo, wp.array, name, self._forbid_on_array)
            replace(undo, wp.array, "__array_interface__", self._forbid_array_interface)
            for name in (*SYNCHRONISATIONS, "capture_launch", "to_dlpack"):
                replace(undo, wp, name, self._forbid_call)
            replace(undo, wp, "to_torch", self._allow)
            for name in ("capture_if", "capture_while"):
                replace(undo, wp, name, self._count_conditional)
            for mode in self._torch_modes:
                undo.enter_context(mode)
            self._restore = undo.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore.close()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Forbid nothing inside: for eager calls between two graphs.

        Torch knows nothing of the guard there: a compiled function falls back to plain Python while somebody watches
        its operations.
        """
        if threading.get_ident() != self._thread:  # nothing is forbidden there
            yield
            return
        self._suspended += 1
        try:
            with taken_off(*self._torch_modes):
                yield
        finally:
            self._suspended -= 1

    def _enforced(self) -> bool:
        return not self._suspended and threading.get_ident() == self._thread

    def _raise(self, what: str, consequence: str) -> NoReturn:
        raise CaptureError(
            f"Stage '{self._stage}' used {what} while it was being captured on {self._device.alias}: {consequence}. "
            "Move it out of the stage, or call it through lab_warp.eager (torch code: lab_warp.capture_torch)."
        )

    def _raise_host_read(self, what: str) -> NoReturn:
        self._raise(what, "captured work has not run yet, so the host would read stale data")

    def _forbid_on_array(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def guarded(array: wp.array, *args: Any, **kwargs: Any) -> Any:
            if self._enforced() and array.device == self._device:
                self._raise_host_read(f"wp.array.{name}()")
            return original(array, *args, **kwargs)

        return guarded

    def _forbid_array_interface(self, original: property, name: str) -> property:
        # Only CPU arrays have this protocol, and `hasattr` must go on saying so.
        def guarded(array: wp.array) -> Any:
            if self._enforced() and self._device.is_cpu and array.device == self._device:
                self._raise_host_read("a NumPy view of a wp.array")
            return original.__get__(array)

        return property(guarded)

    def _forbid_host_assign(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def guarded(array: wp.array, src: Any) -> Any:
            if self._enforced() and array.device == self._device and not isinstance(src, (wp.array, wp.indexedarray)):
                self._raise(f"wp.array.{name}({type(src).__name__})", "each replay would read that host buffer again")
            return original(array, src)

        return guarded

    def _forbid_call(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if self._enforced():
                self._raise(f"wp.{name}()", "it cannot be part of a graph")
            return original(*args, **kwargs)

        return guarded

    def _allow(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def allowed(*args: Any, **kwargs: Any) -> Any:
            with self.suspended():
                return original(*args, **kwargs)

        return allowed

    def _count_conditional(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.conditional_depth += 1
            try:
                return original(*args, **kwargs)
            finally:
                self.conditional_depth -= 1

        return counted

    def _check_torch_call(self, function: Callable[..., Any]) -> None:
        if self._enforced() and function in TENSOR_HOST_READS:
            self._raise_host_read(f"torch.Tensor.{function.__name__}()")

    def _check_torch_operation(self, operation: Any, args: tuple[Any, ...]) -> None:
        if self._enforced() and not getattr(operation, "is_view", False):
            self._raise(f"torch operation {operation}", "it would run once, now, and be missing from every replay")
