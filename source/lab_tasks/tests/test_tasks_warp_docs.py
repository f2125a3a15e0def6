"""The guide of the Warp front end: its example runs, and the tests that hold its requirements exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "warp_frontend.md"
REQUIREMENTS = ROOT / "docs" / "requirements.md"
ROWS = {1: 6, 2: 8, 3: 29, 4: 8, 6: 4}
"""Part -> number of rows."""


def test_the_example_runs(tmp_path):
    """As a file, since Warp reads the source of kernels."""
    (code,) = re.findall(r"```python run\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    path = tmp_path / "guide_of_the_warp_front_end.py"
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    speed = module.env.scene["robot"].data.joint_vel.abs()
    expected = -0.1 * (speed > 0.2).sum(dim=-1).float()
    assert (module.env.reward_manager.step_reward[:, -1] == expected).all() and expected.any()


def test_every_row_names_tests_that_exist():
    rows = re.findall(r"^\| (\d+\.\d+) \| [^|]+ \| ([^|]+) \|$", REQUIREMENTS.read_text(), re.MULTILINE)
    assert [row for row, _ in rows] == [f"{part}.{i}" for part, number in ROWS.items() for i in range(1, number + 1)]
    for row, tests in rows:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)
        assert named or tests.startswith("no test:"), row
        for file, test in named:
            (path,) = ROOT.glob(f"source/*/tests/**/{file}")
            assert re.search(rf"def {test}\(", path.read_text()), f"{row}: {file}::{test}"
