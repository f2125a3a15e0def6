"""Which kernels a function launches, found out without compiling or running one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import warp as wp


class KernelLaunches:
    """Notes the kernels that are launched on ``device`` while launches are held back."""

    def __init__(self, device: wp.Device) -> None:
        self._device = device
        self._found: dict[tuple[Any, int], None] = {}

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Inside, ``wp.launch`` and ``wp.launch_tiled`` only note what they are asked for; branches and bodies of loops
        of Warp's are walked through once.

        Launches that are recorded as commands, and kernels of generic types, go on as usual: what these become is not
        known before.
        """
        replaced: dict[str, Callable[..., Any]] = {
            "launch": partial(self._note, wp.launch),
            "launch_tiled": partial(self._note, wp.launch_tiled),
            "capture_if": _walk_through_branches,
            "capture_while": _walk_through_loop,
        }
        before = {name: getattr(wp, name) for name in replaced}
        try:
            for name, function in replaced.items():
                setattr(wp, name, function)
            yield
        finally:
            for name, function in before.items():
                setattr(wp, name, function)

    def loads(self) -> list[Callable[[], object]]:
        """Returns what compiles and loads each module of the kernels that were noted."""
        return [partial(module.load, self._device, block_dim) for module, block_dim in self._found]

    def _note(self, launch: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        kernel = args[0] if args else kwargs["kernel"]
        if kernel.is_generic or kwargs.get("record_cmd"):
            return launch(*args, **kwargs)
        # As in a launch: one thread where blocks mean nothing, else 256 or what is asked for.
        block_dim = 1 if self._device.is_cpu else kwargs.get("block_dim") or 256
        self._found[kernel.module, block_dim] = None
        return None


def _walk_through_branches(
    condition: Any, on_true: Any = None, on_false: Any = None, stream: Any = None, **kwargs: Any
) -> None:
    for branch in (on_true, on_false):
        if callable(branch):
            branch(**kwargs)


def _walk_through_loop(condition: Any, while_body: Any, stream: Any = None, **kwargs: Any) -> None:
    if callable(while_body):
        while_body(**kwargs)
