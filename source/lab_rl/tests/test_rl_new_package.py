"""A package that ``lab new`` wrote: its own tests pass, and its task trains, as if it were installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

LAB = ("-c", "from lab_core.cli import main; raise SystemExit(main())")
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


def run(folder: Path, path: Path, *command: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        (sys.executable, *command), cwd=folder, env=environ, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_it_tests_itself_and_trains(tmp_path: Path) -> None:
    (tmp_path / "leg.xml").write_text(LEG)
    told = run(tmp_path, tmp_path, *LAB, "new", "my_leg", "--robot", "leg.xml")
    package = tmp_path / "my_leg"
    assert "lab train MyLeg-Stay" in told
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = package / "my_leg-0.1.0.dist-info"  # what an installation writes
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: my_leg\nVersion: 0.1.0\n")
    (task,) = project["entry-points"]["lab.tasks"].items()
    info.joinpath("entry_points.txt").write_text(f"[lab.tasks]\n{task[0]} = {task[1]}\n")
    assert "2 passed" in run(package, package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    said = run(package, package, *LAB, "train", "MyLeg-Stay", "--num-envs", "8", "--max-iterations", "2", "--device",
               "cpu", "--no-video")  # fmt: skip
    assert "iteration 2/2" in said
    assert (package / "logs" / "MyLeg-Stay" / "latest" / "checkpoints" / "2.pt").exists()
