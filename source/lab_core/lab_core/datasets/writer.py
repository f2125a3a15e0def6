"""Writing ended episodes to files while the environment goes on."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lab_core.config import check_kinds
from lab_core.datasets.at_exit import close_at_exit, forget
from lab_core.datasets.config import DatasetCfg
from lab_core.datasets.episode import EpisodeInfo
from lab_core.datasets.errors import RecorderError
from lab_core.datasets.index import ShardEntry, ShardIndex, find_shards, index_path, shard_path
from lab_core.datasets.provenance import Provenance, describe, physics_differences
from lab_core.datasets.reader import RecordedDataset
from lab_core.datasets.shard import Shard
from lab_core.env import Env
from lab_core.errors import ConfigError

if TYPE_CHECKING:
    from lab_core.recorder.sinks import EpisodeBatch

_QUEUE_LENGTH = 4
"""Batches that wait for the disk at most; then the environment waits too, so that memory stays flat."""


class DatasetWriter:
    """A sink that writes HDF5 files, each finished under a temporary name and renamed.

    Episodes are copied from the device to pinned memory once, beside the next steps; a thread waits for the copy and
    does the rest. A failure of the disk is raised by the next :meth:`check`, with what has been saved.

    Args:
        cfg: Where and how; its ``mode`` is not looked at.
        provenance: What the files say about their origin.
        accepts: Which episodes to write; default: all.

    Raises:
        RecorderError: the folder cannot be written, or holds a recording of this name and ``cfg.existing`` is "refuse";
            or the recording to resume comes from another robot or other physics.
    """

    def __init__(
        self, cfg: DatasetCfg, provenance: Provenance, accepts: Callable[[EpisodeInfo], bool] = lambda info: True
    ) -> None:
        _check(cfg)
        self.cfg = cfg
        self._provenance = provenance
        self._accepts = accepts
        self.index = _open_index(cfg, provenance)
        self._shard: Shard | None = None
        self._shard_since = 0.0
        self._failure: RecorderError | None = None
        self._reported = False
        self._resumed = self.index.episodes
        self._received = 0
        self._queue: queue.Queue[tuple[EpisodeBatch, Callable[[], None]] | None] = queue.Queue(_QUEUE_LENGTH)
        self._thread = threading.Thread(target=self._run, name=f"recorder {cfg.name}", daemon=True)
        self._thread.start()
        close_at_exit(self, hold=True)

    @property
    def num_saved(self) -> int:
        """Episodes of this writer in finished files."""
        return self.index.episodes - self._resumed

    @property
    def _next_path(self) -> Path:
        return shard_path(self.cfg.folder, self.cfg.name, len(self.index.shards))

    def accepts(self, info: EpisodeInfo) -> bool:
        return self._accepts(info)

    def write(self, batch: EpisodeBatch) -> None:
        """Takes over episodes; waits while the disk is too far behind."""
        self._received += len(batch)
        self._queue.put(batch.to_host())

    def check(self) -> None:
        if self._failure is not None:
            self._reported = True
            lost = self._received - self.num_saved
            raise RecorderError(
                f"{self._failure} Saved are {len(self.index.shards)} files with {self.index.episodes} episodes in "
                f"{self.cfg.folder}; {lost} episodes are lost."
            )

    def close(self) -> None:
        """Finishes the last file. Safe to call twice.

        Raises:
            RecorderError: files could not be written and :meth:`check` has not said so yet.
        """
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        forget(self)
        if not self._reported:
            self.check()

    # In the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=self._time_left())
            except queue.Empty:
                self._try(self._finish_shard)
                continue
            if item is None:
                self._try(self._finish)
                if not self.index.shards:  # nothing that a later recording might destroy
                    with suppress(OSError):
                        index_path(self.cfg.folder, self.cfg.name).unlink(missing_ok=True)
                return
            self._try(partial(self._add, *item))

    def _time_left(self) -> float | None:
        if self._shard is None:
            return None
        return max(0.0, self._shard_since + self.cfg.shard_seconds - time.monotonic())

    def _try(self, action: Callable[[], None]) -> None:
        """Runs ``action`` unless something failed before, and remembers its failure."""
        if self._failure is not None:
            return
        try:
            action()
        except Exception as error:
            path = getattr(error, "filename", None) or self._next_path
            reason = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
            self._shard = None
            self._failure = RecorderError(f"cannot write {path}: {reason}.")

    def _add(self, batch: EpisodeBatch, wait_for_copy: Callable[[], None]) -> None:
        wait_for_copy()
        for episode in batch.views():
            if self._shard is None:
                self._shard, self._shard_since = Shard(self._provenance, self.cfg.compression), time.monotonic()
            number = self.index.episodes + self._shard.num_episodes
            self._shard.add(number, replace(episode, info=replace(episode.info, label=self.cfg.label)))
            if self._shard.num_bytes >= self.cfg.shard_megabytes * 1e6:
                self._finish_shard()
        if self._shard is not None and self._time_left() == 0.0:
            self._finish_shard()

    def _finish_shard(self) -> None:
        if self._shard is None:
            return
        path = self._next_path
        self._shard.save(path)
        entry = ShardEntry(path.name, self._shard.num_episodes, self._shard.num_steps)
        self._shard = None
        self.index.shards.append(entry)
        self.index.save(self.cfg.folder)

    def _finish(self) -> None:
        self._finish_shard()
        if self.index.shards:
            self.index.closed = True
            self.index.save(self.cfg.folder)


def dataset_sinks(
    cfg: DatasetCfg, env: Env, also: Callable[[EpisodeInfo], bool] = lambda info: True
) -> list[DatasetWriter]:
    """Returns the writers of ``cfg``: one, or one each for episodes that succeeded and failed.

    Args:
        cfg: Where and how.
        env: What is recorded.
        also: A further condition on episodes, asked last.

    Raises:
        ConfigError: a setting is impossible.
        RecorderError: see :class:`DatasetWriter`.
    """
    check_target(cfg)
    provenance = describe(env, cfg.env_name)
    if cfg.mode == "all":
        return [DatasetWriter(cfg, provenance, also)]
    writers = [DatasetWriter(cfg, provenance, lambda info: info.success and also(info))]
    try:
        for name in target_names(cfg)[1:]:
            failed = replace(cfg, name=name)
            writers.append(DatasetWriter(failed, provenance, lambda info: not info.success and also(info)))
    except BaseException:
        writers[0].close()
        raise
    return writers


def check_target(cfg: DatasetCfg) -> None:
    """Raises what would keep :func:`dataset_sinks` from writing there, before anything is built.

    Raises:
        ConfigError: a setting is impossible.
        RecorderError: the folder is none, or holds a recording of this name and ``cfg.existing`` is "refuse".
    """
    check_kinds(cfg, "recorder.dataset")
    for name in target_names(cfg):
        _check(replace(cfg, name=name))


def target_names(cfg: DatasetCfg) -> list[str]:
    """Returns the names of the recordings that :func:`dataset_sinks` writes."""
    return [cfg.name, f"{cfg.name}_failed"] if cfg.mode == "separate" else [cfg.name]


def _check(cfg: DatasetCfg) -> None:
    if not cfg.name or "/" in cfg.name:
        raise ConfigError(f"recorder.dataset.name must be a file name, got {cfg.name!r}.")
    if cfg.folder.exists() and not cfg.folder.is_dir():
        raise RecorderError(f"cannot record into {cfg.folder}: it is a file, not a folder.")
    present = find_shards(cfg.folder, cfg.name)
    if cfg.existing == "refuse" and (present or index_path(cfg.folder, cfg.name).exists()):
        raise RecorderError(
            f"{cfg.folder} already holds a recording {cfg.name!r} ({len(present)} files); choose another folder or "
            "name, or say whether to overwrite or resume it."
        )


def _open_index(cfg: DatasetCfg, provenance: Provenance) -> ShardIndex:
    """Returns the index to go on from: an empty one, or that of the recording to resume."""
    present = find_shards(cfg.folder, cfg.name)
    listed = index_path(cfg.folder, cfg.name)
    index = ShardIndex(cfg.name)
    try:
        cfg.folder.mkdir(parents=True, exist_ok=True)
        if present or listed.exists():
            if cfg.existing == "overwrite":
                for path in (listed, *present):
                    path.unlink(missing_ok=True)
            else:
                index.shards = _resumed_shards(cfg, provenance)
            for path in find_shards(cfg.folder, cfg.name, unfinished=True):  # of a program that was stopped
                path.unlink(missing_ok=True)
        index.save(cfg.folder)
    except OSError as error:
        raise RecorderError(f"cannot record into {cfg.folder}: {error.strerror or error}.") from error
    return index


def _resumed_shards(cfg: DatasetCfg, provenance: Provenance) -> list[ShardEntry]:
    """The finished files as they are, whatever the index says of them."""
    with RecordedDataset(cfg.folder, cfg.name) as dataset:
        found = physics_differences(provenance.attributes, dataset.attributes) if dataset.attributes else []
        if found:
            raise RecorderError(
                f"the recording {cfg.name!r} in {cfg.folder} cannot be resumed, the robot or the physics differs:\n  "
                + "\n  ".join(found)
            )
        return [ShardEntry(path.name, len(infos), sum(info.length for info in infos)) for path, infos in dataset.files]
