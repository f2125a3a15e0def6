"""The word to the user while kernels compile."""

from __future__ import annotations

import os
import time

import pytest
import warp as wp

from lab_warp import progress
from lab_warp.progress import Progress, quiet_warp, start_warp


def test_nothing_is_said_when_it_is_quick(capfd):
    with Progress("Compiling", quiet_for=60.0):
        pass
    assert capfd.readouterr().err == ""


def test_what_takes_long_says_how_far_it_is(capfd):
    with Progress("Compiling", quiet_for=0.0, interval=0.001) as progress:
        progress.show("3/7 modules")
        time.sleep(0.1)
    lines = capfd.readouterr().err.splitlines()
    assert "Compiling: 3/7 modules, 0 s" in lines
    assert lines[-1].startswith("Compiling: done, ")


def test_a_failure_is_not_called_done(capfd):
    with pytest.raises(RuntimeError), Progress("Compiling", quiet_for=0.0, interval=0.001):
        time.sleep(0.1)
        raise RuntimeError
    assert capfd.readouterr().err.splitlines()[-1].startswith("Compiling: failed, ")


def test_warp_is_only_quiet_inside():
    before = wp.config.log_level
    with quiet_warp():
        assert wp.config.log_level >= wp.LOG_WARNING
    assert wp.config.log_level == before


@pytest.mark.parametrize("gpu", (False, True))
def test_a_missing_driver_is_told_only_where_there_is_a_gpu(gpu, monkeypatch, capfd):
    """Warp's library writes to the file descriptor, past Python."""
    monkeypatch.setattr(progress, "_has_gpu", lambda: gpu)
    monkeypatch.setattr(wp, "init", lambda: os.write(2, b"Warp: no NVIDIA CUDA driver\nanother word\n"))
    start_warp()
    assert capfd.readouterr().err.splitlines() == ["Warp: no NVIDIA CUDA driver"] * gpu + ["another word"]
