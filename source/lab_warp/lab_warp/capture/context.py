"""Settings, lifetime and report of the captured stages of one environment or backend."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import warp as wp

from lab_core.errors import ConfigError, LabError


class CaptureError(LabError, RuntimeError):
    """A stage did something that a captured graph cannot repeat, or was used while that is impossible."""


@dataclass(frozen=True)
class StageReport:
    """How one stage runs at the moment.

    Attributes:
        stage: Name of the stage.
        device: Warp alias of its device.
        captured: Whether a call with known arguments replays graphs.
        reason: Why, in words; for example ``"LAB_CAPTURE=0"`` or the exception that stopped the last capture.
        num_graphs: Graphs that the stage holds, over all argument sets.
        num_captures: Captures completed since the stage was made; grows when something makes it capture again.
        islands: Calls that run eagerly between its graphs, in order, each with its reason where one was given.
    """

    stage: str
    device: str
    captured: bool
    reason: str
    num_graphs: int
    num_captures: int
    islands: tuple[str, ...]


class Stage(Protocol):
    """What a context, and the graphs of a stage, know of it."""

    name: str
    context: CaptureContext

    def drop_graphs(self, reason: str) -> None:
        """Forget all graphs; capture at the next call."""
        ...

    def report(self) -> StageReport:
        """State of this stage."""
        ...


class CaptureContext:
    """Owns what the stages of one environment or backend have in common.

    Each environment (or physics backend) makes its own, so that two of them in one process never disturb each other.
    The environment variables are read here, once, when the context is made:

    - ``LAB_CAPTURE=0`` runs every stage eagerly (on the CPU with bitwise the same results, much slower).
    - ``LAB_SYNC_DEBUG=1`` makes a hidden host synchronisation raise in whatever a stage runs eagerly.

    Args:
        device: Device that the stages capture on, e.g. ``"cpu"`` or ``"cuda:0"``.
        enabled: Whether stages capture; None takes ``LAB_CAPTURE`` (default on).
        sync_debug: Whether host synchronisations raise; None takes ``LAB_SYNC_DEBUG`` (default off).

    Raises:
        ConfigError: An environment variable is neither ``0`` nor ``1``.
    """

    def __init__(self, device: str | wp.Device, *, enabled: bool | None = None, sync_debug: bool | None = None) -> None:
        self.device: wp.Device = wp.get_device(device)
        self.enabled = _environment_flag("LAB_CAPTURE", default=True) if enabled is None else enabled
        self.sync_debug = _environment_flag("LAB_SYNC_DEBUG", default=False) if sync_debug is None else sync_debug
        self._stages: weakref.WeakValueDictionary[int, Stage] = weakref.WeakValueDictionary()
        self._num_stages = 0
        self._running: list[Stage] = []
        self._collect_fully = False

    @property
    def is_running(self) -> bool:
        """Whether a stage of this context is running: captured, replayed, or called eagerly."""
        return bool(self._running)

    def invalidate(self) -> None:
        """Drop all graphs of every stage; each captures again at its next call.

        Call it when memory that the graphs read has been or will be replaced: a hard reset of the simulation, a
        rebuilt model. The device is synchronised first, so that no graph is freed while it runs, and the next
        capture is preceded by a full garbage collection.

        Raises:
            CaptureError: A stage of this context is running.
        """
        if self._running:
            raise CaptureError(
                f"invalidate() was called from inside stage '{self._running[-1].name}', whose graphs are in use. "
                "Reset or rebuild the simulation between stages."
            )
        for stage in list(self._stages.values()):
            stage.drop_graphs("invalidated")

    def report(self) -> list[StageReport]:
        """State of every live stage, in the order in which the stages were made."""
        return [stage.report() for _, stage in sorted(self._stages.items())]

    def _add(self, stage: Stage) -> None:
        self._stages[self._num_stages] = stage
        self._num_stages += 1

    @contextmanager
    def _collector_paused(self) -> Iterator[None]:
        """Keep the garbage collector out of a capture.

        A graph, module or array that it finalises there has its release captured, or invalidates the capture. What
        an invalidation left behind sits in old generations, so the first capture after one collects them all.
        """
        was_enabled = gc.isenabled()
        if was_enabled and self._collect_fully:
            gc.collect()
            self._collect_fully = False
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()
                gc.collect(0)


def capturing_device() -> wp.Device | None:
    """A device on which Warp captures now, whoever began it, else None."""
    cpu = wp.get_device("cpu")
    if cpu.is_capturing:
        return cpu
    return next((device for device in wp.get_cuda_devices() if device.has_context and device.is_capturing), None)


def _environment_flag(name: str, *, default: bool) -> bool:
    value = os.environ.get(name, "")
    if value not in ("", "0", "1"):
        raise ConfigError(f"environment variable {name} is {value!r}; expected 0 or 1.")
    return default if value == "" else value == "1"
