"""One HDF5 file of episodes, in the layout that Isaac Lab and robomimic read.

::

    /                  format_version = 1, lab_version
    ├─ lab/config      the environment's configuration, YAML
    ├─ lab/episodes    the attributes of all episodes, JSON
    └─ data            total, env_args, and what :mod:`lab_core.datasets.provenance` states
       └─ demo_<n>     num_samples, success, seed, and the other fields of EpisodeInfo
          ├─ actions (L, A), obs (L, D), states/articulation/<name>/joint_position (L, J), ...
          └─ initial_state/articulation/<name>/root_pose (1, 7), ...
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from pathlib import Path

import h5py
import numpy as np
import torch
from h5py import h5d, h5s, h5t  # pyright: ignore[reportAttributeAccessIssue]

from lab_core.datasets.episode import Episode, EpisodeInfo
from lab_core.datasets.provenance import Provenance

FORMAT_VERSION = 1
"""Of the layout: 1 stores quaternions xyzw; files of 0, or without a version, store them wxyz."""
LAB_FORMAT_VERSION = 1
"""Of what this package adds to the layout."""
_CHUNK_BYTES = 256 * 1024
_GROWTH_BYTES = 4 * 2**20
_numbers = itertools.count()


class Shard:
    """A file that is built in memory and saved whole.

    HDF5 never touches the disk, so that a crash or a full disk can neither leave a damaged file nor upset the library.

    Args:
        provenance: What the file says about its origin.
        compression: Level of gzip; 0: plain arrays, one behind the other, which can be mapped into memory.
    """

    def __init__(self, provenance: Provenance, compression: int = 0) -> None:
        self._file = h5py.File(
            f"shard-{next(_numbers)}",  # HDF5 tells open files apart by name
            "w",
            driver="core",
            backing_store=False,
            block_size=_GROWTH_BYTES,
            libver=("earliest", "v110"),  # what readers of many years can open
        )
        self._compression = compression
        self.num_episodes = 0
        self.num_steps = 0
        self.num_bytes = 0
        self._file.attrs["format_version"] = FORMAT_VERSION
        self._file.attrs["lab_version"] = LAB_FORMAT_VERSION
        # An attribute holds at most 64 KiB.
        self._file.create_dataset("lab/config", data=provenance.config, dtype=h5py.string_dtype())
        self._infos: dict[str, EpisodeInfo] = {}
        self._data = self._file.create_group("data", track_order=True)
        self._data.attrs["total"] = 0
        for name, value in provenance.attributes.items():
            self._data.attrs[name] = value

    def add(self, number: int, episode: Episode) -> None:
        """Writes an episode as ``demo_<number>``."""
        name = f"demo_{number}"
        self._infos[name] = episode.info
        group = self._data.create_group(name)
        write_info(group, episode.info)
        parents = {"": group}
        for key, value in (episode.steps | {key: value[None] for key, value in episode.initial.items()}).items():
            folder, _, leaf = key.rpartition("/")
            if folder not in parents:
                parents[folder] = group.require_group(folder)
            self._write(parents[folder], leaf, value)
        self.num_episodes += 1
        self.num_steps += len(episode)
        self._data.attrs["total"] = self.num_steps
        self._data.attrs["initial_keys"] = json.dumps(list(episode.initial))

    def save(self, path: Path) -> None:
        """Writes the file to ``path``, which then exists as a whole or not at all, also after a crash.

        Raises:
            OSError: it could not be written; nothing is left behind.
        """
        # The attributes again, at one place: a reader need not visit every episode to know them.
        infos = json.dumps({name: dataclasses.asdict(info) for name, info in self._infos.items()})
        self._file.create_dataset("lab/episodes", data=infos, dtype=h5py.string_dtype())
        self._file.flush()
        image = self._file.id.get_file_image()
        self._file.close()
        save_bytes(path, image)

    def _write(self, group: h5py.Group, name: str, tensor: torch.Tensor) -> None:
        if tensor.dtype == torch.bfloat16:  # unknown to NumPy
            tensor = tensor.float()
        array = np.ascontiguousarray(tensor.numpy())
        self.num_bytes += array.nbytes
        if self._compression and array.size:
            rows = max(1, min(len(array), _CHUNK_BYTES // max(1, array.nbytes // len(array))))
            options = {"chunks": (rows, *array.shape[1:]), "compression": "gzip"}
            group.create_dataset(name, data=array, compression_opts=self._compression, **options)
        else:  # what create_dataset() does, in half of its time
            space, kind = h5s.create_simple(array.shape), h5t.py_create(array.dtype, logical=True)
            h5d.create(group.id, name.encode(), kind, space).write(h5s.ALL, h5s.ALL, array)


def write_info(group: h5py.Group, info: EpisodeInfo) -> None:
    """Stores the facts of an episode as attributes of its group."""
    group.attrs["num_samples"] = info.length
    for name, value in dataclasses.asdict(info).items():
        group.attrs[name] = np.bool_(value) if isinstance(value, bool) else value


def save_bytes(path: Path, data: bytes) -> None:
    """Writes a file that exists under its name only when it is complete and on the disk.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk names none, and the temporary name says nothing to a user
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Makes a rename last; not every file system offers it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
