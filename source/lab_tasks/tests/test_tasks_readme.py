"""The README names every task, and its example runs as it stands."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_readme_names_every_task_and_no_other():
    announced = {point.name for point in entry_points(group="lab.tasks") if point.value.startswith("lab_tasks.")}
    assert set(re.findall(r"`(Lab-[\w-]+)`", README)) == announced


@pytest.mark.slow
def test_readme_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert "slider_to_cart" in capsys.readouterr().out
