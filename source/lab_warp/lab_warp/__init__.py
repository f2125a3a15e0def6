"""The Warp front end: the environments of lab_core as kernels, captured stages, and random streams."""

from __future__ import annotations

from lab_warp.capture import (
    CaptureContext,
    CapturedStage,
    CaptureError,
    HasCaptureContext,
    StageReport,
    capturable,
    capture_torch,
    captured,
    captured_stages,
    eager,
    not_capturable,
    skipping_eager_calls,
)
from lab_warp.rng import WarpRng

__version__ = "0.1.0"

__all__ = [
    "CaptureContext",
    "CaptureError",
    "CapturedStage",
    "HasCaptureContext",
    "StageReport",
    "WarpRng",
    "capturable",
    "capture_torch",
    "captured",
    "captured_stages",
    "eager",
    "not_capturable",
    "skipping_eager_calls",
]
