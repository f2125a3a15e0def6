"""What tests of the viewer share."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture
def port() -> int:
    """A port that no other test and no other program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
