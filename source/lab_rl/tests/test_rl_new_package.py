"""A package that ``lab new`` wrote: its own tests pass, and its task trains, as if it were installed."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab_core.cli import main

LEG = """
<mujoco>
  <worldbody>
    <body name="trunk" pos="0 0 0.1">
      <freejoint/>
      <geom type="box" size="0.2 0.2 0.05" mass="2"/>
      <body name="arm" pos="0 0 0.1">
        <joint name="shoulder" axis="0 1 0" range="-90 90"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.2" size="0.04" mass="0.5"/>
      </body>
    </body>
  </worldbody>
</mujoco>"""


SMALL = {
    "train": ["--num-envs", "8", "--max-iterations", "2", "--device", "cpu", "--no-video"],
    "play": ["--device", "cpu", "--num-envs", "1", "--video", "play.mp4", "--video-length", "5"],
}
"""What keeps the guide's commands short."""
GUIDE = Path(__file__).parents[3] / "docs" / "own_robot.md"


def install(package: Path) -> None:
    """Writes what an installation of the package does."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = package / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    announced = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["lab.tasks"].items())
    info.joinpath("entry_points.txt").write_text(f"[lab.tasks]\n{announced}")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, whose package is found once it is installed; its modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "my_leg"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_leg"]:
        del sys.modules[name]


@pytest.mark.slow
def test_the_guide_to_a_robot_of_ones_own_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command, in order; those that learn and show are made short, and the installation is done by hand."""
    (here / "leg.xml").write_text(LEG)
    blocks = re.findall(r"```bash\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    said = {}
    for line in commands:
        program, name, *rest = line.split()
        if program == "uv":
            install(here / "my_leg")
            importlib.invalidate_caches()
        else:
            assert main([name, *rest, *SMALL.get(name, [])]) == 0, line
            said[name] = capsys.readouterr().out
    assert [line.split()[1] for line in commands] == ["view", "view", "new", "pip", "train", "export", "play"]
    assert (here / "leg.png").exists() and (here / "colliding.png").exists()
    assert "iteration 2/2" in said["train"] and ".onnx" in said["export"]
    assert (here / "play.mp4").exists()
    assert pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "my_leg/tests"]) == 0
