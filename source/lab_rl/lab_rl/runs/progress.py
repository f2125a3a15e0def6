"""``progress.jsonl``: one line of numbers per iteration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab_core.errors import LabError
from lab_rl.runs.files import write_file


def read_progress(path: Path) -> list[dict[str, Any]]:
    """The rows of ``path`` in order, [] if there is none. A last line that was cut off by a crash is left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


class ProgressFile:
    """Appends rows to ``path``; rows beyond ``iteration``, of a run that went further before it resumed, go away."""

    def __init__(self, path: Path, iteration: int = 0) -> None:
        self.rows = [row for row in read_progress(path) if row["iteration"] <= iteration]
        write_file(path, "".join(json.dumps(row) + "\n" for row in self.rows))
        self._file = path.open("ab", buffering=0)  # on disk at once, and nothing is left for close() to fail on

    @property
    def elapsed(self) -> float:
        """Duration of the run at the last row [s]."""
        return self.rows[-1]["elapsed_s"] if self.rows else 0.0

    def add(self, row: dict[str, Any]) -> None:
        """Appends a row with at least ``iteration`` and ``elapsed_s``.

        Raises:
            LabError: It cannot be written.
        """
        self.rows.append(row)
        try:
            self._file.write((json.dumps(row) + "\n").encode())
        except OSError as error:
            raise LabError(f"Cannot write {self._file.name}: {error.strerror or error}.") from error

    def close(self) -> None:
        self._file.close()
