"""The host's side of retained episodes: who ended, who receives it, and what is in the ring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lab_core.datasets.episode import Episode, EpisodeInfo
from lab_core.datasets.errors import RecorderError
from lab_core.env import Env
from lab_core.errors import ConfigError
from lab_core.recorder.config import RetentionCfg
from lab_core.recorder.monitor import NON_FINITE, SUCCESS, TERMINATED, TRUNCATED, EndMonitor
from lab_core.recorder.ring import EpisodeRing, ring_bytes
from lab_core.recorder.rows import RecordField, RowLayout
from lab_core.recorder.sinks import EpisodeBatch, EpisodeSink
from lab_core.recorder.transition import TransitionBuffers, check_key, check_values, flatten

LAG = 4
"""Steps that the host may be behind a GPU in knowing which episodes have ended."""
BATCH_BYTES = 64 * 2**20
"""Episodes are handed on in batches of about this size: a common time-out of all environments needs no second ring."""


@dataclass(frozen=True, kw_only=True)
class EpisodeCounts:
    """Episodes with at least one step, since the recorder was built.

    ``ended == exported + filtered``; ``ended == successful + failed``.
    """

    ended: int
    """Ended in a step, or cut off from outside."""
    running: int
    successful: int
    failed: int
    interrupted: int
    """Cut off from outside; they are among the others too."""
    exported: int
    """Handed to at least one sink."""
    filtered: int
    """Wanted by no sink."""


class Retention:
    """Keeps episodes in a ring and hands those that end to the sinks.

    Raises:
        RecorderError: the ring would exceed the memory limit.
    """

    def __init__(self, cfg: RetentionCfg, buffers: TransitionBuffers, env: Env) -> None:
        self._cfg = cfg
        self._env = env
        self._buffers = buffers
        self.sinks: list[EpisodeSink] = []
        """Receivers of ended episodes."""
        self.capacity = env.max_episode_length if cfg.max_episode_length is None else cfg.max_episode_length
        if self.capacity < 1:
            raise ConfigError(f"recorder.retention.max_episode_length must be positive, got {self.capacity}.")
        self._monitor = EndMonitor(env.num_envs, env.device, LAG if env.device.type == "cuda" else 0)
        layouts = (buffers.step_layout, buffers.initial_layout)
        lag = self._monitor.lag + 1  # a consumer may ask for an episode when the ring holds the next step already
        self._check_memory(ring_bytes(*layouts, env.num_envs, self.capacity, lag))
        self.ring = EpisodeRing(layouts[0], buffers.step_rows, layouts[1], buffers.initial_rows, self.capacity, lag)
        self._added: dict[str, RecordField] = {}
        self._first_step = env.step_count
        self._begun = np.zeros(env.num_envs, np.int64)  # step in which the running episode began
        self._starts = np.zeros(env.num_envs, np.int64)  # beginnings before the running one, also of empty episodes
        self._episodes = np.zeros(env.num_envs, np.int64)  # episodes with steps before the running one
        self._tally = dict.fromkeys(("ended", "successful", "interrupted", "exported"), 0)

    @property
    def description(self) -> str:
        """What is kept and what memory it takes."""
        return (
            f"{len(self._buffers.fields)} keys, up to {self.capacity} steps of {self._env.num_envs} environments, "
            f"{_size(self.ring.num_bytes)} on {self._env.device}"
        )

    # On the device --------------------------------------------------------------------------------------------------

    def add_values(self, key: str, value: Any, mask: torch.Tensor) -> bool:
        """Writes values (N, ...) below ``key`` into the latest step of the environments of ``mask`` (N,) bool.

        Returns:
            Whether the ring has grown by a key.
        """
        known = len(self._added)
        leaves = dict(flatten(key, value))
        for name, tensor in leaves.items():  # all of them before the first is written
            if name in self._buffers.fields:
                raise RecorderError(f"recorded key {name!r} belongs to a term and cannot be added to.")
            if name not in self._added:
                check_key(name, [*self._buffers.fields, *self._added])
            check_values(name, tensor, self._env.num_envs, self._env.device, self._added.get(name))
        for name, tensor in leaves.items():
            if name not in self._added:
                field = RecordField(name, tuple(tensor.shape[1:]), tensor.dtype, "post_step", masked=True)
                self._check_memory(self.ring.num_bytes + self.ring.bytes_of(RowLayout([field])))
                self.ring.add(field)
                self._added[name] = field
            self.ring.amend(name, tensor, mask)
        return len(self._added) > known

    # On the host ----------------------------------------------------------------------------------------------------

    def finish_step(self, end_codes: torch.Tensor) -> None:
        """Takes over the end codes (N,) of the step that was just made, and exports what is known to have ended.

        Raises:
            RecorderError: a sink failed, or an episode outgrew the ring.
        """
        self._monitor.push(end_codes)
        too_long = self._export_ended()
        for sink in self.sinks:
            sink.check()
        if self._cfg.on_overflow == "error" and too_long.any():
            env_ids = np.flatnonzero(too_long)
            raise RecorderError(
                f"the episodes of environments {env_ids[:8].tolist()}{' ...' if len(env_ids) > 8 else ''} are longer "
                f"than the {self.capacity} steps that the recorder keeps; raise recorder.retention.max_episode_length, "
                "or set its on_overflow to 'drop_oldest'."
            )

    def settle(self, success: torch.Tensor) -> None:
        """Counts the step that an error cut off, if the ring holds it, and ends all running episodes, incomplete: their
        environments may have moved on unrecorded. Waits for the device."""
        if int(self.ring.cursor) != self._monitor.pushed % self.ring.num_slots:
            self._monitor.push(torch.zeros_like(success, dtype=torch.int32))
        self.interrupt(torch.ones_like(success), success)

    def adopt_beginnings(self) -> None:
        """Takes the number of beginnings over from the device, where an error has left the host behind."""
        self._starts = self.ring.beginnings.cpu().numpy().copy()

    def interrupt(self, mask: torch.Tensor, success: torch.Tensor) -> None:
        """Ends the running episodes of the environments of ``mask`` (N,) bool, incomplete. Waits for the device."""
        self._export_ended(wait=True)
        interrupted = mask.cpu().numpy()
        has_steps = self._begun < self._monitor.pushed
        self._starts[interrupted & ~has_steps] += 1
        env_ids = np.flatnonzero(interrupted & has_steps)
        codes = success.cpu().numpy()[env_ids] * SUCCESS
        self._export(env_ids, self._monitor.pushed - 1, codes, complete=False)
        self._first_step = self._env.step_count - self._monitor.pushed  # a loaded state brings its own

    def running_episode(self, env_id: int) -> Episode:
        """Returns a copy of the running episode of an environment."""
        if not 0 <= env_id < self._env.num_envs:
            raise IndexError(f"There are {self._env.num_envs} environments; got {env_id}.")
        self._export_ended(wait=True)
        infos = self._infos(np.array([env_id]), self._monitor.pushed - 1, np.zeros(1, np.int32), complete=False)
        (episode,) = self._gather(infos, self._monitor.pushed - 1, self._starts)
        return episode

    def counts(self) -> EpisodeCounts:
        """Returns the number of episodes."""
        self._export_ended(wait=True)
        ended, successful, exported = (self._tally[name] for name in ("ended", "successful", "exported"))
        return EpisodeCounts(
            ended=ended,
            running=int((self._begun < self._monitor.pushed).sum()),
            successful=successful,
            failed=ended - successful,
            interrupted=self._tally["interrupted"],
            exported=exported,
            filtered=ended - exported,
        )

    def close(self, success: torch.Tensor) -> None:
        """Exports the running episodes as incomplete and closes the sinks."""
        with ExitStack() as stack:  # whatever fails, all of them are closed
            for sink in reversed(self.sinks):
                stack.callback(sink.close)
            self.settle(success)

    def _export_ended(self, wait: bool = False) -> np.ndarray:
        """Exports what has ended. Returns (N,) bool, environments whose episodes outgrew the ring."""
        too_long = np.zeros(self._env.num_envs, bool)
        for step, codes in self._monitor.take(wait):
            too_long |= step - self._begun >= self.capacity
            env_ids = np.flatnonzero(codes)
            if len(env_ids):
                self._export(env_ids, step, codes[env_ids], complete=True)
        return too_long

    def _export(self, env_ids: np.ndarray, last_step: int, codes: np.ndarray, complete: bool) -> None:
        """Ends the running episodes of ``env_ids`` and hands them on; ended they are, also where a sink fails."""
        infos, starts = self._infos(env_ids, last_step, codes, complete), self._starts.copy()
        self._begun[env_ids] = last_step + 1
        self._starts[env_ids] += 1
        self._episodes[env_ids] += 1
        self._tally["ended"] += len(infos)
        self._tally["successful"] += sum(info.success for info in infos)
        self._tally["interrupted"] += 0 if complete else len(infos)
        wanted = [[sink.accepts(info) for info in infos] for sink in self.sinks]
        for sink, wants in zip(self.sinks, wanted, strict=True):
            for part in self._parts([info for info, want in zip(infos, wants, strict=True) if want]):
                sink.write(self._gather(part, last_step, starts))
        self._tally["exported"] += sum(map(any, zip(*wanted, strict=True)))

    def _infos(self, env_ids: np.ndarray, last_step: int, codes: np.ndarray, complete: bool) -> list[EpisodeInfo]:
        infos = []
        for env_id, code in zip(env_ids.tolist(), codes.tolist(), strict=True):
            steps = last_step - int(self._begun[env_id]) + 1
            kept = min(steps, self.capacity)
            infos.append(
                EpisodeInfo(
                    env_id=env_id,
                    episode_index=int(self._episodes[env_id]),
                    start_step=self._first_step + last_step - kept + 1,
                    length=kept,
                    dropped_steps=steps - kept,
                    terminated=bool(code & TERMINATED),
                    truncated=bool(code & TRUNCATED),
                    success=bool(code & SUCCESS),
                    complete=complete,
                    non_finite=bool(code & NON_FINITE),
                    seed=self._env.seed,
                )
            )
        return infos

    def _parts(self, infos: list[EpisodeInfo]) -> Iterator[list[EpisodeInfo]]:
        limit = BATCH_BYTES // max(1, self._buffers.step_layout.row_bytes)
        part, steps = [], 0
        for info in infos:
            if part and steps + info.length > limit:
                yield part
                part, steps = [], 0
            part.append(info)
            steps += info.length
        if part:
            yield part

    def _gather(self, infos: Sequence[EpisodeInfo], last_step: int, starts: np.ndarray) -> EpisodeBatch:
        env_ids = [info.env_id for info in infos]
        steps, initial = self.ring.gather(
            env_ids, [last_step] * len(infos), [info.length for info in infos], starts[env_ids].tolist()
        )
        return EpisodeBatch(infos, steps, initial)

    def _check_memory(self, size: int) -> None:
        if size > self._cfg.memory_limit_gib * 2**30:
            raise RecorderError(
                f"the recorder would keep {_size(size)} ({self.capacity} steps of {self._env.num_envs} environments), "
                f"more than recorder.retention.memory_limit_gib = {self._cfg.memory_limit_gib:g}; record fewer "
                "environments or keys, set max_episode_length, or raise the limit."
            )


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"
