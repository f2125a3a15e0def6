"""Stage capture and shared random state on NVIDIA Warp."""

from __future__ import annotations

from lab_warp.capture import (
    Capturability,
    CaptureContext,
    CapturedStage,
    CaptureError,
    HasCaptureContext,
    StageReport,
    WarpCapturable,
    capturability,
    capture_torch,
    captured,
    captured_stages,
    eager,
)
from lab_warp.rng import WarpRng

__version__ = "0.1.0"

__all__ = [
    "Capturability",
    "CaptureContext",
    "CaptureError",
    "CapturedStage",
    "HasCaptureContext",
    "StageReport",
    "WarpCapturable",
    "WarpRng",
    "capturability",
    "captured",
    "captured_stages",
    "eager",
    "capture_torch",
]
