"""The figures of a file are what a reader would count."""

from __future__ import annotations

import workspace
from measure import Figures, measure, measure_file

TEXT = '''# pyright: reportGeneralTypeIssues=false
"""Any text says Any."""

from typing import Any

import numpy  # type: ignore[import]


class Thing:
    # a comment
    _state_exclude = ("a",)

    def short(self, value: Any) -> None: ...

    def longer(self) -> "Any":
        value: Any = self._state_exclude

        return value
'''


def test_figures_of_a_file():
    assert measure_file(TEXT) == Figures(
        files=1, lines=9, longest_file=18, longest_function=4, any=2, files_with_pragmas=1, state_exclude=1
    )


def test_packages_add_up(skeleton):
    skeleton.write("source/lab_rl/lab_rl/new.py", TEXT)
    table = measure(skeleton.root)
    assert table["lab_rl"].files_with_pragmas == table["all"].files_with_pragmas == 1
    assert table["all"].lines == sum(figures.lines for name, figures in table.items() if name != "all")
    assert table["all"].longest_function == 4


def test_the_command_prints_a_row_per_package(skeleton):
    result = skeleton.run("measure.py")
    assert result.returncode == 0
    rows = [row.split()[1] for row in result.stdout.splitlines()[2:]]
    assert rows == [*workspace.packages(), "all"]
