"""The list of a recording's files, kept beside them."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab_core.datasets.errors import DatasetError
from lab_core.datasets.shard import save_bytes


@dataclass
class ShardEntry:
    """One finished file."""

    file: str
    episodes: int
    steps: int


@dataclass
class ShardIndex:
    """What a recording consists of: ``<name>.index.json``."""

    name: str
    shards: list[ShardEntry] = field(default_factory=list)
    closed: bool = False
    """False while it is being written, and for ever after a crash: episodes that were in no finished file are lost."""

    @property
    def episodes(self) -> int:
        """Episodes in finished files; also the number of the next one."""
        return sum(shard.episodes for shard in self.shards)

    @property
    def steps(self) -> int:
        """Steps in finished files."""
        return sum(shard.steps for shard in self.shards)

    def save(self, folder: Path) -> None:
        """Writes the index, at once.

        Raises:
            OSError: it could not be written; the old one is still there.
        """
        save_bytes(index_path(folder, self.name), json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def load(cls, folder: Path, name: str) -> ShardIndex:
        """Reads the index.

        Raises:
            DatasetError: there is none, or it is damaged.
        """
        path = index_path(folder, name)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            shards = [ShardEntry(**entry) for entry in content.pop("shards")]
            return cls(shards=shards, **content)
        except OSError as error:
            raise DatasetError(f"Cannot read {path}: {error.strerror or error}.") from error
        except (ValueError, TypeError, KeyError) as error:
            raise DatasetError(f"{path} is not the index of a recording: {error}.") from error


_SHARD_NAME = r"(?P<name>.+)-(?P<number>\d{5,})\.hdf5"


def index_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.index.json"


def shard_path(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}-{number:05d}.hdf5"


def find_shards(folder: Path, name: str | None = None, unfinished: bool = False) -> list[Path]:
    """Returns the files of a recording, or of all, in order; or what a program that was stopped has left of some."""
    pattern = re.compile(rf"\.{_SHARD_NAME}\.partial" if unfinished else _SHARD_NAME)
    matches = {path: match for path in folder.glob("*") if (match := pattern.fullmatch(path.name))}
    found = [path for path, match in matches.items() if name in (None, match["name"])]
    return sorted(found, key=lambda path: (matches[path]["name"], int(matches[path]["number"])))


def shard_recording(path: Path) -> str:
    """Returns the name of the recording that a file of :func:`find_shards` belongs to."""
    return path.name.removesuffix(path.suffix).rpartition("-")[0]


def recording_names(folder: Path) -> list[str]:
    """Returns the names of the recordings whose indices are in ``folder``, sorted."""
    suffix = ".index.json"
    return sorted(path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}"))
