"""The host's side of retained episodes: who ended, who receives it, and what is in the ring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lab_core.errors import ConfigError
from lab_core.recorder.config import RetentionCfg
from lab_core.recorder.episode import Episode, EpisodeBatch, EpisodeInfo, EpisodeSink
from lab_core.recorder.errors import RecorderError
from lab_core.recorder.monitor import NON_FINITE, SUCCESS, TERMINATED, TRUNCATED, EndMonitor
from lab_core.recorder.ring import EpisodeRing, ring_bytes
from lab_core.recorder.rows import RecordField, RowLayout
from lab_core.recorder.transition import TransitionBuffers, check_rows, flatten

if TYPE_CHECKING:
    from lab_core.envs import RLEnv

LAG = 4
"""Steps that the host may be behind a GPU in knowing which episodes have ended."""
BATCH_BYTES = 64 * 2**20
"""Episodes are handed on in batches of about this size: a common time-out of all worlds needs no second ring."""


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

    def __init__(self, cfg: RetentionCfg, buffers: TransitionBuffers, env: RLEnv) -> None:
        self._cfg = cfg
        self._env = env
        self._buffers = buffers
        self.sinks: list[EpisodeSink] = []
        """Receivers of ended episodes."""
        self.capacity = env.max_episode_length if cfg.max_episode_length is None else cfg.max_episode_length
        if self.capacity < 1:
            raise ConfigError(f"recorder.retention.max_episode_length must be positive, got {self.capacity}.")
        self._monitor = EndMonitor(env.num_envs, env.device, LAG)
        layouts = (buffers.step_layout, buffers.initial_layout)
        self._check_memory(ring_bytes(*layouts, env.num_envs, self.capacity, self._monitor.lag))
        self.ring = EpisodeRing(
            layouts[0], buffers.step_rows, layouts[1], buffers.initial_rows, self.capacity, self._monitor.lag
        )
        self._added: dict[str, RecordField] = {}
        self._first_step = env.common_step_counter
        self._begun = np.zeros(env.num_envs, np.int64)  # step in which the running episode began
        self._starts = np.zeros(env.num_envs, np.int64)  # beginnings before the running one, also of empty episodes
        self._episodes = np.zeros(env.num_envs, np.int64)  # episodes with steps before the running one
        self._tally = dict.fromkeys(("ended", "successful", "interrupted", "exported"), 0)

    @property
    def description(self) -> str:
        """What is kept and what memory it takes."""
        return (
            f"{len(self._buffers.fields)} keys, up to {self.capacity} steps of {self._env.num_envs} worlds, "
            f"{_size(self.ring.num_bytes)} on {self._env.device}"
        )

    # On the device --------------------------------------------------------------------------------------------------

    def add_values(self, key: str, value: Any, mask: torch.Tensor) -> bool:
        """Writes values (N, ...) below ``key`` into the latest step of the worlds of ``mask`` (N,) bool.

        Returns:
            Whether the ring has grown by a key.
        """
        known = len(self._added)
        for name, tensor in flatten(key, value):
            if name in self._buffers.fields:
                raise RecorderError(f"recorded key {name!r} belongs to a term and cannot be added to.")
            check_rows(name, tensor, self._env.num_envs)
            if name not in self._added:
                field = RecordField(name, tuple(tensor.shape[1:]), tensor.dtype, "post_step", masked=True)
                self._check_memory(self.ring.num_bytes + self.ring.bytes_of(RowLayout([field])))
                self._added[name] = field
                self.ring.add(field)
            shape = (self._env.num_envs, *self._added[name].shape)
            if tensor.shape != shape:
                raise RecorderError(f"recorded key {name!r} has shape {shape}, got {tuple(tensor.shape)}.")
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
            worlds = np.flatnonzero(too_long)
            raise RecorderError(
                f"the episodes of worlds {worlds[:8].tolist()}{' ...' if len(worlds) > 8 else ''} are longer than the "
                f"{self.capacity} steps that the recorder keeps; raise recorder.retention.max_episode_length, or set "
                "its on_overflow to 'drop_oldest'."
            )

    def settle(self, success: torch.Tensor) -> bool:
        """Counts the step that an error cut off, if the ring holds it, and ends all running episodes with it,
        incomplete. Waits for the device.

        Returns:
            Whether there was such a step.
        """
        if int(self.ring.cursor) == self._monitor.pushed % self.ring.num_slots:
            return False
        self._monitor.push(torch.zeros_like(success, dtype=torch.int32))
        self.interrupt(torch.ones_like(success), success)
        return True

    def interrupt(self, mask: torch.Tensor, success: torch.Tensor) -> None:
        """Ends the running episodes of the worlds of ``mask`` (N,) bool, incomplete. Waits for the device."""
        self._export_ended(wait=True)
        worlds = np.flatnonzero(mask.cpu().numpy())
        with_steps = worlds[self._begun[worlds] < self._monitor.pushed]
        self._export(with_steps, self._monitor.pushed - 1, success.cpu().numpy()[with_steps] * SUCCESS, complete=False)
        self._begun[worlds] = self._monitor.pushed
        self._starts[worlds] += 1

    def running_episode(self, world: int) -> Episode:
        """Returns a copy of the running episode of a world."""
        if not 0 <= world < self._env.num_envs:
            raise IndexError(f"There are {self._env.num_envs} worlds; got {world}.")
        self._export_ended(wait=True)
        infos = self._infos(np.array([world]), self._monitor.pushed - 1, np.zeros(1, np.int32), complete=False)
        (episode,) = self._gather(infos, self._monitor.pushed - 1)
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
        try:
            self.interrupt(torch.ones_like(success), success)
        finally:
            for sink in self.sinks:
                sink.close()

    def _export_ended(self, wait: bool = False) -> np.ndarray:
        """Exports what has ended. Returns (N,) bool, worlds whose episodes outgrew the ring."""
        too_long = np.zeros(self._env.num_envs, bool)
        for step, codes in self._monitor.take(wait):
            too_long |= step - self._begun >= self.capacity
            worlds = np.flatnonzero(codes)
            if len(worlds):
                self._export(worlds, step, codes[worlds], complete=True)
                self._begun[worlds] = step + 1
                self._starts[worlds] += 1
        return too_long

    def _export(self, worlds: np.ndarray, last_step: int, codes: np.ndarray, complete: bool) -> None:
        infos = self._infos(worlds, last_step, codes, complete)
        wanted = [[sink.accepts(info) for info in infos] for sink in self.sinks]
        for sink, wants in zip(self.sinks, wanted, strict=True):
            for part in self._parts([info for info, want in zip(infos, wants, strict=True) if want]):
                sink.write(self._gather(part, last_step))
        self._episodes[worlds] += 1
        self._tally["ended"] += len(infos)
        self._tally["successful"] += sum(info.success for info in infos)
        self._tally["interrupted"] += 0 if complete else len(infos)
        self._tally["exported"] += sum(map(any, zip(*wanted, strict=True)))

    def _infos(self, worlds: np.ndarray, last_step: int, codes: np.ndarray, complete: bool) -> list[EpisodeInfo]:
        infos = []
        for world, code in zip(worlds.tolist(), codes.tolist(), strict=True):
            steps = last_step - int(self._begun[world]) + 1
            kept = min(steps, self.capacity)
            infos.append(
                EpisodeInfo(
                    env_id=world,
                    episode_index=int(self._episodes[world]),
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

    def _gather(self, infos: Sequence[EpisodeInfo], last_step: int) -> EpisodeBatch:
        worlds = [info.env_id for info in infos]
        steps, initial = self.ring.gather(
            worlds, [last_step] * len(infos), [info.length for info in infos], self._starts[worlds].tolist()
        )
        return EpisodeBatch(infos, steps, initial)

    def _check_memory(self, size: int) -> None:
        if size > self._cfg.memory_limit_gib * 2**30:
            raise RecorderError(
                f"the recorder would keep {_size(size)} ({self.capacity} steps of {self._env.num_envs} worlds), more "
                f"than recorder.retention.memory_limit_gib = {self._cfg.memory_limit_gib:g}; record fewer worlds or "
                "keys, set max_episode_length, or raise the limit."
            )


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} GiB"
