"""Temporary hooks into Warp and torch, shared by the capture guard and the synchronisation trap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

ARRAY_HOST_READS = ("numpy", "list")
SYNCHRONISATIONS = ("synchronize", "synchronize_device", "synchronize_stream", "synchronize_event")
TENSOR_HOST_READS = (torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__)
"""Tensor methods that read CPU memory without running an operation; ``item`` and its kin run one."""


def replace(undo: ExitStack, owner: Any, name: str, wrap: Callable[[Any, str], Any]) -> None:
    """Put ``wrap(original, name)`` in place of an attribute until ``undo`` closes."""
    inherited = name not in vars(owner)
    original = getattr(owner, name)
    setattr(owner, name, wrap(original, name))
    if inherited:
        undo.callback(delattr, owner, name)
    else:
        undo.callback(setattr, owner, name, original)


class TorchCalls(TorchFunctionMode):
    """Shows each call of torch's Python functions and tensor methods to ``check`` before it is made."""

    def __init__(self, check: Callable[[Callable[..., Any]], None]) -> None:
        super().__init__()
        self._check = check

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self._check(func)
        return func(*args, **(kwargs or {}))


class TorchOperations(TorchDispatchMode):
    """Shows each torch operation to ``check`` before it runs, also those that torch's C++ code calls."""

    def __init__(self, check: Callable[[Any, tuple[Any, ...]], None]) -> None:
        super().__init__()
        self._check = check

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing here is compiled, and skipping it imports the compiler, which takes seconds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self._check(func, args)
        return func(*args, **(kwargs or {}))


@contextmanager
def taken_off(calls: TorchCalls, operations: TorchOperations) -> Iterator[None]:
    """Takes modes off torch's stacks, and puts them back at the end.

    One that is not on top stays: torch has taken it off itself while it asks it, or somebody put another above it.
    """
    off: list[TorchCalls | TorchOperations] = []
    if _get_current_dispatch_mode() is operations:
        operations.__exit__(None, None, None)
        off.append(operations)
    if _get_current_function_mode() is calls:
        calls.__exit__(None, None, None)
        off.append(calls)
    try:
        yield
    finally:
        for mode in reversed(off):
            mode.__enter__()
