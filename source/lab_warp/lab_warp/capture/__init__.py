"""Stage capture: the Warp work of a step captured once as graphs and replayed, on CUDA and on the CPU."""

from __future__ import annotations

from lab_warp.capture.context import CaptureContext, CaptureError, StageReport
from lab_warp.capture.graphs import skipping_eager_calls
from lab_warp.capture.marks import capturable, not_capturable
from lab_warp.capture.stage import (
    CapturedStage,
    HasCaptureContext,
    Island,
    capture_torch,
    captured,
    captured_stages,
    eager,
)

__all__ = [
    "CaptureContext",
    "CaptureError",
    "CapturedStage",
    "HasCaptureContext",
    "Island",
    "StageReport",
    "capturable",
    "capture_torch",
    "captured",
    "captured_stages",
    "eager",
    "not_capturable",
    "skipping_eager_calls",
]
