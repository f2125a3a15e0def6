"""Pictures as files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from lab_core.errors import LabError


def write_png(path: Path, picture: np.ndarray) -> None:
    """Writes a uint8 RGB picture (height, width, 3) as PNG (ISO/IEC 15948); missing folders are made.

    Raises:
        LabError: the file cannot be written.
    """
    height, width, _ = picture.shape
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits per colour, RGB
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks))
    except OSError as error:
        raise LabError(f"Cannot write a picture to {path}: {error.strerror or error}") from error


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
