"""Recorded figures say nothing of the machine's folders."""

from __future__ import annotations

import json
from typing import Any

import pytest

import workspace

FOLDER = workspace.ROOT / "docs" / "benchmarks"


def paths_in(value: Any) -> list[str]:
    """Returns the words of all texts that are absolute paths."""
    if isinstance(value, dict):
        return [path for item in (*value, *value.values()) for path in paths_in(item)]
    if isinstance(value, list):
        return [path for item in value for path in paths_in(item)]
    return [word for word in str(value).split() if word.startswith("/") and word.count("/") > 1]


def test_a_path_is_found_wherever_it_is():
    assert paths_in({"a": [{"command": "python /home/me/x.py 1/2 /"}]}) == ["/home/me/x.py"]


@pytest.mark.parametrize("file", sorted(FOLDER.rglob("*.json")), ids=lambda path: path.name)
def test_no_file_holds_an_absolute_path(file):
    assert paths_in(json.loads(file.read_text())) == []
