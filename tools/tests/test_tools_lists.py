"""docs/terms.md is what the code says."""

from __future__ import annotations

import write_lists


def test_the_lists_are_up_to_date() -> None:
    assert write_lists.TARGET.read_text() == write_lists.write(), "run `python tools/write_lists.py`"


def test_every_row_says_what_it_is() -> None:
    rows = [line.split(" | ") for line in write_lists.write().splitlines() if line.startswith("| `")]
    assert len(rows) > 90
    assert all(row[-1].strip(" |") for row in rows)
    (pose,) = (row for row in rows if row[0] == "| `root_link_pose_w`")
    assert pose[1:4] == ["(N, 7)", "m", "`transformf`"]
