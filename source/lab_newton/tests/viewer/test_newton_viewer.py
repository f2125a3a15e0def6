"""The view in the browser."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest

from lab_core.errors import LabError
from lab_core.scene import CameraCfg
from lab_newton.viewer.address import free_port
from lab_newton.viewer.browser import foremost

CAMERA = CameraCfg(eye=(1.4, 1.4, 1.2), target=(0.0, 0.0, 0.4))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def test_a_taken_port_gives_the_next_free_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < free_port("127.0.0.1", port) < port + 20


def test_the_first_view_is_of_a_world_that_no_other_hides():
    grid = np.array([[x, y, 0.0] for x in (-2.0, 2.0) for y in (-2.0, 2.0)])
    assert grid[foremost(grid, np.array([5.0, 0.0, 1.0]))][0] == 2.0
    assert grid[foremost(grid, np.array([-1.0, -1.0, 1.0]))].tolist() == [-2.0, -2.0, 0.0]


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(LabError, match=r"cannot listen on host '192\.0\.2\.1'"):
        free_port("192.0.2.1", 8080)


def test_the_page_is_served_on_this_machine_only_until_it_is_closed(rover, port):
    viewer = rover.open_viewer(CAMERA, port=port)
    try:
        assert viewer.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(viewer.url, timeout=20) as page:
            assert b"viser" in page.read().lower()
        rover.step(1)
        viewer.update()
    finally:
        viewer.close()
        viewer.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(viewer.url, timeout=5)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_shows_the_robot(rover, port, tmp_path: Path):
    assert CHROMIUM is not None
    shot = tmp_path / "page.png"
    viewer = rover.open_viewer(CAMERA, port=port)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
             "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--window-size=900,600",
             "--virtual-time-budget=20000", "--timeout=60000", f"--screenshot={shot}"]  # fmt: skip
    browser = subprocess.Popen([CHROMIUM, *flags, viewer.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 90
        while browser.poll() is None and time.monotonic() < deadline:
            viewer.update()
            time.sleep(0.1)
        assert browser.poll() == 0
    finally:
        browser.kill()
        viewer.close()
    picture = iio.imread(shot)[..., :3].astype(int)
    red, green, blue = np.moveaxis(picture, -1, 0)
    hull = (green > red + 25) & (green > blue + 10)
    assert hull[150:, :500].sum() > 300, "no green robot beside the panel"
