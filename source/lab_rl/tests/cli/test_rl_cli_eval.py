"""``lab eval``."""

from __future__ import annotations

import json

import pytest

from lab_core.cli import main
from lab_rl.runs.folder import RunFolder


def test_checkpoints_come_in_the_order_of_their_iterations(tmp_path):
    run = RunFolder.create(tmp_path)
    for iteration in (2, 10, 100, 20):
        run.checkpoint(iteration).touch()
    assert [path.stem for path in run.checkpoints_until(run.checkpoint(20))] == ["2", "10", "20"]


def test_a_policy_is_measured_and_written(tmp_path, capsys):
    output = tmp_path / "figures.json"
    argv = ["eval", "Lab-Tracking-G1", "--policy", "zero", "--device", "cpu", "--frontend", "torch"]
    assert main([*argv, "--output", str(output), "--env.commands.motion.clips", "stand"]) == 1
    (policy,) = json.loads(output.read_text())["policies"]
    assert policy["policy"] == "zero" and policy["summary"]["failed_clips"] == ["stand"]
    assert policy["rows"][0]["failed_at_s"] == pytest.approx(1.4, abs=0.2)
    assert "0 of 1 policies failed nowhere" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "Which task"),
        (["Lab-Cartpole", "--policy", "zero"], "does not say how policies are evaluated"),
        (["Lab-Tracking-G1", "--policy", "zero", "--checkpoint", "x"], "Evaluate which"),
    ],
)
def test_what_is_missing_is_named(argv, message, capsys):
    assert main(["eval", *argv]) != 0
    assert message in capsys.readouterr().err
