"""Reading recorded files: ours, those of Isaac Lab (format 0 and 1), and others in the same layout."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeGuard, TypeVar

import h5py
import numpy as np
import torch

from lab_core.datasets.episode import Episode, EpisodeInfo
from lab_core.datasets.errors import DatasetError, NoSuchEpisodeError
from lab_core.datasets.index import ShardIndex, find_shards, index_path, recording_names, shard_recording
from lab_core.datasets.shard import FORMAT_VERSION, LAB_FORMAT_VERSION
from lab_core.errors import unknown_name_message

_Parsed = TypeVar("_Parsed", dict[str, Any], list[Any])
_OPEN_FILES = 16
_OTHERS = " The other files can be read by themselves; `lab data merge FILE ...` puts them together."


class RecordedDataset:
    """The episodes of one file, or of all files of a recording, in the order in which they were written.

    Nothing but the facts of the episodes is read until it is asked for. It may be used from forked processes and can
    be pickled: every process opens files of its own.

    Args:
        path: An HDF5 file, or the folder of a recording.
        name: Which recording of the folder; may be left out where there is one.

    Raises:
        DatasetError: there is no such recording, or a file is damaged or of another kind.
    """

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = Path(path)
        self.notices: list[str] = []
        """What a user should know, such as that the recording was not closed."""
        paths = self._find_files(name)
        self._open: OrderedDict[Path, h5py.File] = OrderedDict()
        self._process = os.getpid()
        self.attributes: dict[str, Any] = {}
        """Attributes of the group ``data`` of the first file."""
        self.config = ""
        """The environment's configuration as YAML; empty where the file has none."""
        self.files: list[tuple[Path, list[EpisodeInfo]]] = []
        """Every file with the facts of its episodes."""
        self._places: list[tuple[Path, str]] = []
        self._quaternions_wxyz: set[Path] = set()
        for file in paths:
            try:
                with naming(file):
                    self._scan(file)
            except DatasetError as error:
                raise DatasetError(f"{error}{_OTHERS if len(paths) > 1 else ''}") from error
        self.infos = [info for _, infos in self.files for info in infos]
        """Facts of all episodes."""

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Episode]:
        return map(self.load, range(len(self)))

    @property
    def names(self) -> list[str]:
        """Names of the episodes in their files, ``demo_0``, ..."""
        return [name for _, name in self._places]

    @property
    def quaternion_order(self) -> str:
        """How root poses are stored, ``xyzw`` or ``wxyz``; what is read is always xyzw."""
        return "wxyz" if self._quaternions_wxyz else "xyzw"

    @property
    def initial_keys(self) -> list[str]:
        """Keys that have one value per episode."""
        if stored := self.parsed_attribute("initial_keys", []):
            return stored
        return [key for key in self._leaves(0) if key.split("/")[0] == "initial_state"]

    @property
    def step_keys(self) -> list[str]:
        """Keys that have a value per step, from the first episode."""
        initial = set(self.initial_keys)
        return [key for key in self._leaves(0) if key not in initial]

    def entity_names(self, entity: str, kind: str) -> list[str] | None:
        """Returns the ``joint_names`` or ``body_names`` of an entity, or None if the file does not tell."""
        return self.parsed_attribute("names", {}).get(entity, {}).get(kind)

    def parsed_attribute(self, name: str, default: _Parsed) -> _Parsed:
        """Returns what an attribute says that holds JSON; ``default`` where it is missing or, in files of other
        programs, something else."""
        try:
            value = json.loads(self.attributes[name])
        except (KeyError, TypeError, ValueError):
            return default
        return value if isinstance(value, type(default)) else default

    def load(self, index: int, keys: Sequence[str] | None = None, device: str | torch.device = "cpu") -> Episode:
        """Returns an episode.

        Args:
            index: 0 .. ``len(self) - 1``.
            keys: What to read; a key stands for all below it. None: everything.
            device: Where its tensors go.

        Raises:
            DatasetError: there is no such key, or the file cannot be read.
            NoSuchEpisodeError: there is no such episode.
        """
        initial = set(self.initial_keys)
        steps, first = {}, {}
        for key in self._chosen(index, keys):
            array = self.array(index, key)
            tensor = torch.from_numpy(np.array(array[0] if key in initial else array)).to(device)
            (first if key in initial else steps)[key] = tensor
        return Episode(self.infos[index], steps, first)

    def array(self, index: int, key: str, rows: slice = slice(None), mapped: bool = False) -> np.ndarray:
        """Returns rows of a key of an episode.

        Args:
            index: The episode.
            key: Full key.
            rows: Of the first axis.
            mapped: Map the file into memory instead of reading it, where it is stored plainly.

        Raises:
            DatasetError: there is no such key or episode, or the file cannot be read.
        """
        path, _ = self._place(index)
        dataset = self._dataset(index, key)
        offset = dataset.id.get_offset() if mapped else None
        turn = path in self._quaternions_wxyz and key.endswith("root_pose") and dataset.shape[-1] == 7
        if offset is not None and not turn:
            return np.memmap(path, dataset.dtype, mode="r", offset=offset, shape=dataset.shape)[rows]
        with naming(f"{self.where(index)}, {key}"):
            array = dataset[rows]
        return array[..., [0, 1, 2, 4, 5, 6, 3]] if turn else array

    def layout(self, index: int) -> dict[str, tuple[tuple[int, ...], str]]:
        """Returns shape without the first axis, and type, of every key of an episode."""
        return {
            key: (dataset.shape[1:], dataset.dtype.name)
            for key in self._leaves(index)
            for dataset in [self._dataset(index, key)]
        }

    def copy_episode(self, index: int, target: h5py.Group, name: str) -> None:
        """Copies an episode as it is stored into a group of another file."""
        group = self._group(index)
        group.file.copy(group, target, name=name)

    def where(self, index: int) -> str:
        """Returns file and name of an episode, for messages."""
        path, name = self._place(index)
        return f"{path}, {name}"

    def close(self) -> None:
        """Closes all files. Reading opens them again."""
        if self._process == os.getpid():
            for file in self._open.values():
                file.close()
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}

    # Finding and scanning -------------------------------------------------------------------------------------------

    def _find_files(self, name: str | None) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        if not self.path.is_dir():
            raise DatasetError(f"There is no file or folder {self.path}.")
        names = sorted({*map(shard_recording, find_shards(self.path)), *recording_names(self.path)})
        if not names:
            raise DatasetError(f"The folder {self.path} holds no recording (<name>-00000.hdf5, <name>.index.json).")
        if name is None and len(names) > 1:
            raise DatasetError(f"The folder {self.path} holds several recordings, {names}; name one.")
        name = name or names[0]
        if name not in names:
            raise DatasetError(f"{self.path}: {unknown_name_message('recording', name, names)}")
        found = find_shards(self.path, name)
        self._notice_gaps(name, found)
        return found

    def _notice_gaps(self, name: str, present: list[Path]) -> None:
        if not index_path(self.path, name).exists():
            return
        index = ShardIndex.load(self.path, name)
        if missing := sorted({shard.file for shard in index.shards} - {path.name for path in present}):
            raise DatasetError(f"{self.path}: files of the recording {name!r} are missing: {missing}.{_OTHERS}")
        if not index.closed:
            self.notices.append(
                f"The recording {name!r} in {self.path} was not closed: it is being written, or its program was "
                "stopped and the episodes that were in no finished file are lost."
            )
        for path in find_shards(self.path, name, unfinished=True):
            self.notices.append(f"{path} is an unfinished file and is left out.")

    def _scan(self, path: Path) -> None:
        file = self._file(path)
        data = file.get("data")
        if not isinstance(data, h5py.Group):
            raise DatasetError(
                f"{path} holds no episodes: it has no group 'data', only {sorted(file)}. It may be another kind of "
                "HDF5 file."
            )
        # Isaac Lab stored quaternions wxyz before it numbered its formats.
        version = int(file.attrs.get("format_version", 0))
        lab_version = int(file.attrs.get("lab_version", LAB_FORMAT_VERSION))
        if version > FORMAT_VERSION or lab_version > LAB_FORMAT_VERSION:
            raise DatasetError(
                f"{path} has format {version}/{lab_version}; this version reads up to "
                f"{FORMAT_VERSION}/{LAB_FORMAT_VERSION}. Update it."
            )
        if version == 0:
            self._quaternions_wxyz.add(path)
        if not self.attributes:
            self.attributes = {name: _plain(value) for name, value in data.attrs.items()}
            self.config = _text(file, "lab/config")
        names = sorted(data, key=_episode_order)
        if strange := [name for name in names if not isinstance(data.get(name), h5py.Group)]:
            raise DatasetError(f"{path} is of another kind: {', '.join(strange)} in its 'data' are no episodes.")
        self._places += [(path, name) for name in names]
        self.files.append((path, _read_infos(file, data, names)))

    # Access ---------------------------------------------------------------------------------------------------------

    def _file(self, path: Path) -> h5py.File:
        if self._process != os.getpid():  # forked: the parent's handles must not be shared
            self._open, self._process = OrderedDict(), os.getpid()
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        file = open_hdf5(path)
        self._open[path] = file
        if len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file

    def _place(self, index: int) -> tuple[Path, str]:
        if not 0 <= index < len(self._places):
            raise NoSuchEpisodeError(f"{self.path} holds {len(self._places)} episodes; got index {index}.")
        return self._places[index]

    def _group(self, index: int) -> h5py.Group:
        path, name = self._place(index)
        with naming(self.where(index)):
            return self._file(path)["data"][name]  # pyright: ignore[reportIndexIssue, reportReturnType]

    def _dataset(self, index: int, key: str) -> h5py.Dataset:
        group = self._group(index)
        with naming(f"{self.where(index)}, {key}"):
            dataset = group.get(key)
        if not _holds_rows(dataset):
            raise DatasetError(f"{self.where(index)}: {unknown_name_message('key', key, self._leaves(index))}")
        return dataset

    def _leaves(self, index: int) -> list[str]:
        if not self._places:
            return []
        leaves: list[str] = []
        group = self._group(index)
        with naming(self.where(index)):
            group.visititems(
                lambda key, value: leaves.append(key) if isinstance(key, str) and _holds_rows(value) else None
            )
        return leaves

    def _chosen(self, index: int, keys: Sequence[str] | None) -> list[str]:
        leaves = self._leaves(index)
        if keys is None:
            return leaves
        chosen = []
        for key in keys:
            below = [leaf for leaf in leaves if leaf == key or leaf.startswith(f"{key}/")]
            if not below:
                raise DatasetError(f"{self.where(index)}: {unknown_name_message('key', key, leaves)}")
            chosen += below
        return chosen


@contextmanager
def naming(place: Path | str) -> Iterator[None]:
    """Says which part of which file is meant where its content is not what it should be."""
    try:
        yield
    except DatasetError:
        raise
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = str(error) or type(error).__name__
        raise DatasetError(f"Cannot read {place}: it is damaged or of another kind ({reason}).") from error


def _holds_rows(item: Any) -> TypeGuard[h5py.Dataset]:
    """Whether ``item`` holds numbers along a first axis; what else other programs store is left alone."""
    return isinstance(item, h5py.Dataset) and bool(item.shape) and item.dtype.kind in "biufc"


def open_hdf5(path: Path) -> h5py.File:
    """Opens a file for reading.

    Raises:
        DatasetError: it does not exist, is damaged, or is no HDF5 file.
    """
    try:
        return h5py.File(path, "r")
    except OSError as error:
        text = str(error)
        if not path.exists():
            reason = "it does not exist"
        elif "truncated" in text:
            reason = "it is cut off: a copy broke off, or the program that wrote it was stopped"
        elif "signature not found" in text:
            reason = "it is no HDF5 file"
        else:
            reason = text
        raise DatasetError(f"Cannot read {path}: {reason}.") from error


def _read_infos(file: h5py.File, data: h5py.Group, names: list[str]) -> list[EpisodeInfo]:
    infos = json.loads(_text(file, "lab/episodes") or "{}")
    if list(infos) == names:
        return [EpisodeInfo(**info) for info in infos.values()]
    return [_read_info(data[name], number) for number, name in enumerate(names)]


def _text(file: h5py.File, key: str) -> str:
    dataset = file.get(key)
    return str(dataset.asstr()[()]) if isinstance(dataset, h5py.Dataset) else ""


def _read_info(group: Any, number: int) -> EpisodeInfo:
    """Facts of an episode from its attributes; what other programs do not store gets the default."""
    length = int(group.attrs.get("num_samples", 0)) or _count_steps(group)
    known = {field.name for field in dataclasses.fields(EpisodeInfo)}
    stored = {name: _plain(value) for name, value in group.attrs.items() if name in known}
    return EpisodeInfo(**{"env_id": -1, "episode_index": number, "start_step": 0, **stored, "length": length})


def _count_steps(group: h5py.Group) -> int:
    """Rows of the longest array that is no initial state."""
    lengths = [0]

    def visit(key: str, value: Any) -> None:
        if _holds_rows(value) and not key.startswith("initial_state"):
            lengths.append(value.shape[0])

    group.visititems(visit)
    return max(lengths)


def _episode_order(name: str) -> tuple[int, str]:
    number = name.rpartition("_")[2]
    return (int(number), "") if number.isdigit() else (2**63, name)


def _plain(value: Any) -> Any:
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    return value.decode(errors="replace") if isinstance(value, bytes) else value
