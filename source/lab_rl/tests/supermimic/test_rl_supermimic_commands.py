"""From the command line to the exported file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

TASK = """
from lab_core.registry import TaskSpec

TRACKING = TaskSpec(
    id="Track-Cart",
    env_cfg=lambda play=False: cart_env_cfg(16),
    agents={"supermimic": lambda: SETTINGS},
)
"""
SMALL = (
    "--agent.warmup-updates", "2", "--agent.world-model-updates", "1", "--agent.policy-updates", "1",
    "--agent.batch-size", "16", "--agent.world-model.batch-size", "16", "--device", "cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """The cart of these tests as if it were installed."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "tracking_task.py").write_text(Path(__file__).with_name("conftest.py").read_text() + TASK)
    info = folder / "tracking-1.0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: tracking\nVersion: 1.0\n")
    info.joinpath("RECORD").write_text("tracking_task.py,,\n")
    info.joinpath("entry_points.txt").write_text("[lab.tasks]\nTrack-Cart = tracking_task:TRACKING\n")
    return folder


def lab(package: Path, *argv: str) -> str:
    command = [sys.executable, "-c", "from lab_core.cli import main; raise SystemExit(main())", *argv]
    environ = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(command, cwd=package, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow
def test_a_run_trains_resumes_and_is_exported_with_its_contract(package):
    out = lab(package, "train", "Track-Cart", "--max-iterations", "2", "--no-video", *SMALL)
    assert "iteration 2/2" in out
    run = (package / "logs" / "Track-Cart" / "latest").resolve()
    assert "SuperMimicCfg" in (run / "config.yaml").read_text() and (run / "curves.png").exists()
    rows = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    assert {"WorldModel/loss", "Imagined/return", "Skipped/policy", "Sampler/entropy"} <= set(rows[-1])
    lab(package, "train", "--resume", str(run), "--max-iterations", "3", "--no-video")
    assert (run / "checkpoints" / "3.pt").exists()
    assert "checked with onnxruntime" in " ".join(lab(package, "export", str(run)).split())
    properties = {entry.key: entry.value for entry in onnx.load(run / "policy.onnx").metadata_props}
    contract = json.loads(properties["lab"])
    assert [term["name"] for term in contract["observations"]] == ["reference", "joint_pos", "joint_vel", "last_action"]
    assert contract["entities"]["robot"]["joint_names"] == ["slider_to_cart", "cart_to_pole"]
    assert contract["commands"] == ["motion"] and contract["actions"][0]["scale"] == [100.0]
