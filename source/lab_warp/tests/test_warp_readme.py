"""The example of the README runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_readme_example_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    script = tmp_path / "example.py"  # a file, since Warp reads the source of kernels
    script.write_text(example)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    heights = [float(line.split()[-1]) for line in run.stdout.splitlines() if line.startswith("mean height")]
    assert len(set(heights)) == 3
    assert all(0.5 <= height <= 1.5 for height in heights)
    assert "num_graphs=2" in run.stdout
