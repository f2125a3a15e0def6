"""Functions whose many small operations become few kernels on a GPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TypeVar

import torch

F = TypeVar("F", bound=Callable[..., object])


def can_fuse(device: torch.device) -> bool:
    """Returns whether :func:`fused` does something on a device: on GPUs, where Triton is installed."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def fused(function: F, device: torch.device, enabled: bool = True) -> F:
    """Returns ``function``, on a GPU with Triton as ``torch.compile`` makes it, gradients too; else as it is.

    Its values are those of before but for rounding. It takes tensors, and tuples of them, whose shapes stay; what else
    it reads may change seldom, since it is compiled anew for that. It may be captured in a CUDA graph after some calls.

    What was compiled is kept in the folder ``TORCHINDUCTOR_CACHE_DIR``, by default one for temporary files: the next
    process only traces.

    Args:
        function: Without loops over data, and without anything that waits for the device.
        device: Where it computes.
        enabled: Whether to compile at all.
    """
    if not enabled or not can_fuse(device):
        return function
    keep_compiled_gradients()
    return torch.compile(function, fullgraph=True, dynamic=False)  # pyright: ignore[reportReturnType]


def keep_compiled_gradients() -> None:
    """Lets torch keep what it compiled of functions in which there is an :class:`torch.autograd.Function`, too."""
    from torch._functorch import config  # on demand: it is only needed to compile

    name = "autograd_cache_allow_custom_autograd_functions"
    if hasattr(config, name):
        setattr(config, name, True)
