from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab_core.registry import EntryPointGroup

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_python_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^lab (\w+)", README, re.MULTILINE))))
def test_commands_exist(command):
    assert command in EntryPointGroup("lab.commands", "command").names()
