"""Fixtures that several test files share."""

from __future__ import annotations

import pytest
import warp as wp

from lab_warp import CaptureContext

CUDA = pytest.param(
    "cuda:0",
    marks=pytest.mark.gpu,
)


@pytest.fixture(params=["cpu", CUDA])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def context(device: str) -> CaptureContext:
    return CaptureContext(device, enabled=True, sync_debug=False)


@pytest.fixture
def x(device: str) -> wp.array:
    return wp.zeros(4, dtype=wp.int32, device=device)
