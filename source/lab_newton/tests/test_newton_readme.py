"""The README's example runs and does what it says."""

from __future__ import annotations

import re
from pathlib import Path


def test_the_readme_example_runs(tmp_path: Path, monkeypatch):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    robot = names["robot"]
    # The rod weighs 8.4 kg: gravity pulls it a little below the target.
    assert ((robot.joint_pos > 0.3) & (robot.joint_pos < 0.5)).all()
    assert robot.joint_vel.abs().max() < 0.1
