"""Files that appear complete or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from lab_core.errors import LabError


def write_file(path: Path, data: bytes | str) -> None:
    """Writes ``data`` to a hidden file beside ``path`` and gives it that name: readers never see a part.

    Raises:
        LabError: The file cannot be written (no permission, disk full, ...). An older file ``path`` is untouched.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(data.encode() if isinstance(data, str) else data)
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise LabError(f"Cannot write {path}: {error.strerror or error}.") from error
