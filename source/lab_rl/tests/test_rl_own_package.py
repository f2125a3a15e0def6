"""The guide's package: robot, task, and a reward with its twin, found by its entry points as if it were installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CAPTURE = """
from lab_core.envs import make_env
from lab_core.registry import get_task

env = make_env(get_task("Arm-Stand").make_env_cfg(play=True), device="cpu", frontend="warp")
env.step(env.action_manager.action)
for report in env.capture_report():
    assert report.num_graphs == 1 and not report.islands, report
"""
GUIDE = Path(__file__).parents[3] / "docs" / "own_package.md"
LAB = ("-c", "from lab_core.cli import main; raise SystemExit(main())")


@pytest.fixture
def package(tmp_path) -> Path:
    blocks = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE))
    info = tmp_path / "stand-1.0.dist-info"
    for folder in (info, tmp_path / "stand", tmp_path / "tests"):
        folder.mkdir()
    (tmp_path / "stand" / "__init__.py").touch()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: stand\nVersion: 1.0\n")
    announced = re.sub(r'project\.entry-points\.|"', "", blocks.pop("entry_points"))
    info.joinpath("entry_points.txt").write_text(announced)
    for name, text in blocks.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(package: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = (sys.executable, *command)
    return subprocess.run(command, cwd=package, env=environ, capture_output=True, text=True, timeout=500, check=False)


def test_the_table_counts_the_files_that_there_are(package):
    """Three for a reward with its twin, two for a robot, one for a task."""
    rows = dict(re.findall(r"^\| (\w[^|]*) \| ([^|]+) \|$", GUIDE.read_text(), re.MULTILINE))
    files = {what: re.findall(r"`((?:stand|tests)/\w+\.\w+)`", named) for what, named in rows.items()}
    assert [len(files[what]) for what in ("reward with its twin", "robot", "task")] == [3, 2, 1]
    written = {str(path.relative_to(package)) for folder in ("stand", "tests") for path in package.glob(f"{folder}/*")}
    assert written == {"stand/__init__.py"}.union(*files.values())


@pytest.mark.slow
@pytest.mark.parametrize("frontend", ["torch", "warp"])
def test_lab_trains_its_task(package, frontend):
    done = run(package, *LAB, "train", "Arm-Stand", "--frontend", frontend, "--num-envs", "8",
               "--max-iterations", "2", "--device", "cpu", "--no-video")  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert "iteration 2/2" in done.stdout
    log = package / "logs" / "Arm-Stand" / "latest"
    assert (log / "checkpoints" / "2.pt").exists()
    assert "stand.rewards:power" in (log / "config.yaml").read_text()


@pytest.mark.slow
def test_the_step_with_its_twin_is_one_graph(package):
    done = run(package, "-c", CAPTURE)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_its_own_test_passes_and_fails_once_the_kernel_is_wrong(package):
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    done = run(package, *tests)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout
    kernel = package / "stand" / "rewards_warp.py"
    right, wrong = "joint = joints[i]", "joint = i"  # right for all joints in order, and only for those
    text = kernel.read_text()
    assert text.count(right) == 1
    kernel.write_text(text.replace(right, wrong))
    done = run(package, *tests)
    assert done.returncode == 1 and "1 failed, 2 passed" in done.stdout, done.stdout
