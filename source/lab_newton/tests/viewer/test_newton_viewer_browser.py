"""A person at the viewer's page: Chromium, driven by its own debugging protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from websockets.sync.client import ClientConnection, connect

from lab_core.managers import CommandTermCfg
from lab_core.mdp import SettableCommandTerm
from lab_core.physics import CommandComponent
from lab_core.scene import CameraCfg

CAMERA = CameraCfg(eye=(1.4, 1.4, 1.2), target=(0.0, 0.0, 0.4))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-sync", "--use-gl=angle",
         "--disable-background-networking", "--disable-component-update", "--use-angle=swiftshader",
         "--enable-unsafe-swiftshader", "--window-size=900,1000", "--remote-debugging-port=0")  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]


class Velocity(SettableCommandTerm):
    """Draws 0.25 forwards."""

    components = tuple(CommandComponent(name, "m/s", -1.0, 1.0) for name in ("x", "y", "yaw"))

    def __init__(self) -> None:
        env = SimpleNamespace(num_envs=3, device=torch.device("cpu"), generator=torch.Generator())
        super().__init__(CommandTermCfg(resampling_time_range=(1.0, 1.0)), env, num_components=3)

    def _resample(self, mask: torch.Tensor) -> None:
        pass

    def _update_command(self, mask: torch.Tensor) -> None:
        pass

    def update_metrics(self) -> None:
        pass


class Person:
    """Somebody who presses keys and clicks on what a label or button says."""

    def __init__(self, page: ClientConnection) -> None:
        self._page = page
        self._calls = 0

    def call(self, method: str, **params: object) -> dict:
        self._calls += 1
        self._page.send(json.dumps({"id": self._calls, "method": method, "params": params}))
        while True:
            answer = json.loads(self._page.recv(timeout=60))
            if answer.get("id") == self._calls:
                return answer["result"]

    def ask(self, expression: str):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def press(self, key: str, code: str, seconds: float = 0.4) -> None:
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=code)
        time.sleep(seconds)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code)

    def click(self, text: str) -> None:
        place = None
        while place is None or place != self._find(text):  # until the page has its final layout
            place = self._find(text)
            time.sleep(0.3)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def _find(self, text: str) -> list[float]:
        return self.ask(
            f"""(() => {{
                const says = element => element.innerText.trim() === {text!r};
                const button = [...document.querySelectorAll('button')].find(says);
                const label = [...document.querySelectorAll('label')].find(says);
                const box = (button ?? document.getElementById(label.htmlFor)).getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Callable[[str], Person]]:
    """Opens an address in a browser of its own."""
    browsers: list[subprocess.Popen] = []

    def open_page(url: str) -> Person:
        assert CHROMIUM is not None
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path}", url]
        browsers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        port_file = tmp_path / "DevToolsActivePort"
        until(lambda: port_file.exists() and len(port_file.read_text().splitlines()) == 2)
        port = port_file.read_text().splitlines()[0]

        def pages() -> list[dict]:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=20) as answer:
                return [target for target in json.load(answer) if target["type"] == "page"]

        until(pages)
        return Person(connect(pages()[0]["webSocketDebuggerUrl"], max_size=None))

    yield open_page
    for browser in browsers:
        browser.kill()
        browser.wait()


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_keys_set_the_command_and_leave_the_camera_alone(rover, port, browse):
    term = Velocity()
    viewer = rover.open_viewer(CAMERA, port=port, commands={"velocity": term})
    try:
        person = browse(viewer.url)
        clients = viewer._viewer.server.get_clients
        until(
            lambda: clients() and person.ask("document.body.innerText.includes('Set by hand') && !!window.labKeyboard")
        )

        def follows(*expected: float) -> None:
            def check() -> bool:
                viewer.update()
                return term.fixed_command is not None and np.allclose(term.fixed_command, expected)

            until(check)

        (client,) = clients().values()
        time.sleep(1.0)
        eye = client.camera.position.copy()
        for key, code, expected in (
            ("w", "KeyW", (0.1, 0.0, 0.0)),
            ("w", "KeyW", (0.2, 0.0, 0.0)),
            ("s", "KeyS", (0.1, 0.0, 0.0)),
            ("a", "KeyA", (0.1, 0.1, 0.0)),
            ("d", "KeyD", (0.1, 0.0, 0.0)),
            ("e", "KeyE", (0.1, 0.0, -0.1)),
            ("q", "KeyQ", (0.1, 0.0, 0.0)),
            (" ", "Space", (0.0, 0.0, 0.0)),
            ("w", "KeyW", (0.1, 0.0, 0.0)),
            ("x", "KeyX", (0.0, 0.0, 0.0)),
        ):
            person.press(key, code)
            follows(*expected)
        np.testing.assert_allclose(client.camera.position, eye, atol=1e-6)

        def moves_camera(key: str) -> bool:
            person.press(key, key)
            return not np.allclose(client.camera.position, eye, atol=1e-3)

        until(lambda: moves_camera("ArrowLeft"))  # other keys of the camera work

        person.click("Set by hand")
        until(lambda: (viewer.update(), term.fixed_command is None)[1])
        person.press("w", "KeyW")  # the click left the focus on the checkbox, where keys would be lost
        follows(0.1, 0.0, 0.0)
        person.click("Stop")
        follows(0.0, 0.0, 0.0)
    finally:
        viewer.close()


@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_page_pauses_steps_and_resets(rover, port, browse):
    resets = []
    viewer = rover.open_viewer(CAMERA, port=port, on_reset=lambda: resets.append("reset"))
    try:
        person = browse(viewer.url)
        until(lambda: person.ask("document.body.innerText.includes('Pause')"))
        assert viewer.should_step() and viewer.should_step()
        person.click("Pause")
        until(lambda: not viewer.should_step())
        viewer.update("Paused")
        until(lambda: person.ask("document.body.innerText.includes('Paused')"))
        person.click("Step")
        until(viewer.should_step)
        assert not any(viewer.should_step() for _ in range(20))
        person.click("Reset")
        until(lambda: (viewer.should_step(), resets)[1])
        assert resets == ["reset"] and not viewer.should_step()
        person.click("Pause")
        until(viewer.should_step)
        assert viewer.should_step()
    finally:
        viewer.close()
