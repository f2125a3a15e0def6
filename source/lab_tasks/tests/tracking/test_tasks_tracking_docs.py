"""The tests and figures that hold what is asked of motion tracking exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
NUMBERS = {"S": 29, "D": 10, "T": 6}
"""Kind of row -> how many there are."""


def test_every_row_names_tests_or_figures_that_exist():
    rows = re.findall(r"^\| ([SDT]\d+) \| [^|]+ \| ([^|]+) \|$", TEXT, re.MULTILINE)
    assert [row for row, _ in rows] == [f"{kind}{i}" for kind, number in NUMBERS.items() for i in range(1, number + 1)]
    for row, held_by in rows:
        if held_by.startswith("no figure yet: "):
            continue
        tests = re.findall(r"`(test_\w+\.py)::(test_\w+)`", held_by)
        files = re.findall(r"`((?:docs|tools)/[\w/.]+)`", held_by)
        assert len(tests) + len(files) == held_by.count("`") // 2 > 0, row
        for file, test in tests:
            (path,) = ROOT.glob(f"source/*/tests/**/{file}")
            assert re.search(rf"def {test}\(", path.read_text()), f"{row}: {file}::{test}"
        assert not [file for file in files if not (ROOT / file).exists()], row
