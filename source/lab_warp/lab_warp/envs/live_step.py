"""A step and what a learner does around it, as one graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from lab_core.capability import CAPABLE, Capability
from lab_warp.capture import CaptureContext, CapturedStage, Island, StageReport, capture_torch


class LiveStep:
    """Captures a step with torch code before and behind it.

    Warp captures, and torch joins in: the other way round CUDA refuses.

    Args:
        context: Of the environment.
        take_actions: Hands the actions (N, A) over to the step.
        step: The captured stages of the step.
    """

    def __init__(
        self, context: CaptureContext, take_actions: Callable[[torch.Tensor], None], step: Callable[[], None]
    ) -> None:
        self._on_gpu = context.device.is_cuda
        self._take_actions, self._step = take_actions, step
        self._stage = CapturedStage(self._capture, context, name="live step")
        self._captures = False
        self._failure = ""

    def capability(self, step: StageReport | None) -> Capability:
        """Returns whether all of it is one graph, given how the step alone runs."""
        if not self._on_gpu:
            return Capability(False, "torch cannot be captured on the CPU")
        if self._failure:
            return Capability(False, f"its capture failed: {self._failure}")
        if step is None or not step.captured:
            return Capability(False, step.reason if step else "no step was made yet")
        if step.islands:
            return Capability(False, f"the step is not one graph: {'; '.join(dict.fromkeys(step.islands))}")
        return CAPABLE

    def __call__(self, act: Callable[[], torch.Tensor], keep: Callable[[], None]) -> bool:
        """Makes the step and returns True; False if it cannot be captured: then nothing has happened, and a warning
        says why."""
        self._captures = False
        try:
            self._stage(act, keep)
        except RuntimeError as error:
            if not self._captures:  # it is the device that failed
                raise
            self._failure = f"{type(error).__name__}: {error}"
            warnings.warn(f"Acts outside the graph of a step, since its capture failed: {self._failure}", stacklevel=3)
            return False
        return True

    def _capture(self, act: Callable[[], torch.Tensor], keep: Callable[[], None]) -> None:
        self._captures = True
        capture_torch(Island("act", lambda: self._take_actions(act())))
        self._step()
        capture_torch(Island("keep", keep))
