"""The tests and figures that hold what is asked of learned dynamics exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")


def test_every_row_names_tests_or_figures_that_exist():
    rows = re.findall(r"^\| N(\d+) \| [^|]+ \| ([^|]+) \|$", TEXT, re.MULTILINE)
    assert [int(row) for row, _ in rows] == list(range(1, 51))
    for row, held_by in rows:
        tests = re.findall(r"`(test_\w+\.py)::(test_\w+)`", held_by)
        files = re.findall(r"`((?:docs|tools)/[\w/.]+)`", held_by)
        assert len(tests) + len(files) == held_by.count("`") // 2 > 0, f"N{row}"
        for file, test in tests:
            (path,) = ROOT.glob(f"source/*/tests/**/{file}")
            assert re.search(rf"def {test}\(", path.read_text()), f"N{row}: {file}::{test}"
        assert not [file for file in files if not (ROOT / file).exists()], f"N{row}"
