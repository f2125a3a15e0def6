"""The recorder: copies what its terms return in every step, for consumers, a ring of episodes, and files."""

from __future__ import annotations

import atexit
import copy
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import torch

from lab_core.config import check_complete
from lab_core.errors import ConfigError, unknown_name_message
from lab_core.managers.errors import TermError
from lab_core.managers.manager_base import ManagerBase
from lab_core.managers.recorder_manager import NullRecorderManager
from lab_core.masks import EnvSelection, masked_copy_, resolve_mask
from lab_core.recorder.config import Phase, RecorderCfg, RecorderTermCfg
from lab_core.recorder.episode import Episode, EpisodeSink
from lab_core.recorder.errors import RecorderError
from lab_core.recorder.monitor import NON_FINITE, SUCCESS, TERMINATED, TRUNCATED
from lab_core.recorder.retention import EpisodeCounts, Retention
from lab_core.recorder.rows import RecordField
from lab_core.recorder.transition import TransitionBuffers

if TYPE_CHECKING:
    from lab_core.envs import RLEnv


@dataclass
class Transition:
    """What a consumer sees of a step: live buffers, which the next step overwrites."""

    values: Mapping[str, torch.Tensor]
    """Key -> (N, ...); those of ``post_reset`` belong to the episode that is running or ending."""
    terminated: torch.Tensor
    """(N,) bool."""
    truncated: torch.Tensor
    """(N,) bool."""
    done: torch.Tensor
    """(N,) bool, either of them: the world is about to be reset."""
    step: int = 0
    """Steps recorded before this one."""


Consumer = Callable[[Transition], object]


class RecorderManager(ManagerBase[RecorderTermCfg], NullRecorderManager):
    """Copies what its terms return into buffers of its own, for consumers, a ring of episodes, and files.

    It draws nothing at random and changes nothing outside itself: a recorded run is the run, bit for bit. Per step it
    works on the device alone, in place; the host learns of ended episodes from one byte per world
    (:class:`EndMonitor`), gathers them and hands them to the sinks.

    Recording begins when it is built, in the present state of every world.

    Args:
        cfg: What to record; a deep copy is kept.
        env: The environment, built and reset.
        sinks: Receivers of ended episodes, besides the files of ``cfg.dataset``.

    Raises:
        TermError: a term is wrong; the message names it.
        ConfigError: a setting is impossible.
        RecorderError: the ring would exceed its memory limit, or the files cannot be written.
    """

    kind = "recorder"
    cfg_type = RecorderTermCfg

    def __init__(self, cfg: RecorderCfg, env: RLEnv, sinks: Sequence[EpisodeSink] = ()) -> None:
        check_complete(cfg)
        super().__init__(cfg.terms, env)
        self.cfg = copy.deepcopy(cfg)
        self._buffers = TransitionBuffers(env.num_envs, env.device)
        self._keys = {name: term.key or name for name, term in self._cfgs.items()}
        self._measure()
        self.transition = Transition(
            self._buffers.values, env.reset_terminated, env.reset_time_outs, env.reset_buf, step=0
        )
        self._consumers: list[Consumer] = []
        self._success = self._success_function()
        with torch.inference_mode(False):
            self._marked = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
            self._mark = torch.zeros_like(self._marked)
            self._end_codes = torch.zeros(env.num_envs, dtype=torch.uint8, device=env.device)
        self._retention: Retention | None = None
        if cfg.retention is not None:
            self._retention = Retention(cfg.retention, self._buffers, env)
            self._retention.sinks += self._sinks(cfg, env, sinks)  # files only once the memory is granted
            print(f"Recorder: {self._retention.description}", file=sys.stderr)
        elif cfg.dataset is not None or sinks:
            raise ConfigError("recorder.dataset and sinks need recorder.retention: an episode is written when it ends.")
        self._closed = False
        self._step_open = False
        _close_at_exit(self)
        self._begin(torch.ones(env.num_envs, dtype=torch.bool, device=env.device))

    # What it holds --------------------------------------------------------------------------------------------------

    @property
    def fields(self) -> Mapping[str, RecordField]:
        """Key -> shape, type and phase of every recorded quantity."""
        return self._buffers.fields

    @property
    def retention(self) -> Retention | None:
        """The ring and its bookkeeping; None for streaming alone."""
        return self._retention

    @property
    def counts(self) -> EpisodeCounts:
        """How many episodes there were. Waits for the device.

        Raises:
            RecorderError: nothing is retained.
        """
        return self._retained("counts").counts()

    def add_consumer(self, consumer: Consumer) -> None:
        """Calls ``consumer(transition)`` after every step, before anything is reset."""
        self._consumers.append(consumer)

    def get_episode(self, env_id: int) -> Episode:
        """Returns the running episode of a world so far, as a copy that nothing changes any more. Waits for the device.

        Raises:
            RecorderError: nothing is retained, or the recorder is closed.
            IndexError: there is no such world.
        """
        return self._retained("get_episode").running_episode(env_id)

    def add_to_episodes(self, key: str, value: Any, selection: EnvSelection = None) -> torch.Tensor:
        """Adds a value to the latest step of the selected worlds' episodes.

        A key that no term records is stored from its first call on; ``valid/<key>`` tells the steps that have it.
        Worlds whose episode has no step yet are left out. The last step of an episode can be reached by a consumer, not
        after ``step()`` has returned: the episode has been handed on by then.

        Args:
            key: ``/`` nests.
            value: (N, ...), or a nested dict of such.
            selection: Environments: bool mask (N,), indices, or None for all.

        Returns:
            (N,) bool, worlds that were written to.

        Raises:
            RecorderError: the shape is wrong, a term records the key, nothing is retained, or it is closed.
        """
        retention = self._retained("add_to_episodes")
        mask = resolve_mask(selection, self.num_envs, self.device) & (retention.ring.length > 0)
        retention.add_values(key, value, mask)
        return mask

    def set_success_to_episodes(self, success: Any, selection: EnvSelection = None) -> None:
        """Decides whether the running episodes of the selected worlds succeed, whatever the success term says.

        Args:
            success: bool, or (N,) bool.
            selection: Environments: bool mask (N,), indices, or None for all.

        Raises:
            RecorderError: the shape is wrong, nothing is retained, or it is closed.
        """
        self._retained("set_success_to_episodes")
        if isinstance(success, torch.Tensor) and (success.shape != (self.num_envs,) or success.dtype != torch.bool):
            raise RecorderError(
                f"success must be a bool or a bool tensor ({self.num_envs},), got {success.dtype} "
                f"{tuple(success.shape)}."
            )
        mask = resolve_mask(selection, self.num_envs, self.device)
        masked_copy_(self._mark, success, mask)
        masked_copy_(self._marked, True, mask)

    # Hooks ----------------------------------------------------------------------------------------------------------

    def record_pre_step(self) -> None:
        if self._closed:
            return
        self._settle()
        if self.cfg.poison_views:
            self._buffers.poison()
        self._record("pre_step")

    def record_pre_physics(self) -> None:
        if not self._closed:
            self._record("pre_physics")

    def record_post_step(self) -> None:
        if self._closed:
            return
        self._record("post_step")
        if self._retention is not None:
            self._step_open = True
            self._retention.ring.insert()
        for consumer in self._consumers:
            consumer(self.transition)
        self._compute_end_codes()

    def record_post_reset(self, mask: torch.Tensor) -> None:
        if not self._closed:
            self._begin(mask)

    def interrupt(self, mask: torch.Tensor) -> None:
        if not self._closed and self._retention is not None:
            self._settle()
            self._retention.interrupt(mask, self._running_success())

    def finish_step(self) -> None:
        if self._closed:
            return
        self.transition.step += 1
        self._step_open = False
        if self._retention is not None:
            self._retention.finish_step(self._end_codes)

    def close(self) -> None:
        """Exports the running episodes as incomplete, and finishes all files. Safe to call twice; hooks do nothing
        afterwards.

        Raises:
            RecorderError: files could not be written and no step has said so yet.
        """
        if self._closed:
            return
        self._closed = True
        _open_recorders.discard(self)
        if self._retention is not None:
            self._retention.close(self._running_success())

    # Parts ----------------------------------------------------------------------------------------------------------

    def _record(self, phase: Phase) -> None:
        for name, cfg in self._cfgs.items():
            if cfg.phase == phase:
                try:
                    self._buffers.write(self._keys[name], self._call(name))
                except RecorderError as error:
                    raise TermError(f"{self._what(name)}: {error}") from error

    def _settle(self) -> None:
        """After an error that cut off a step, and that somebody caught: ring and host must count the same steps."""
        if self._step_open and self._retention is not None:
            self._step_open = False
            self._retention.abandon_step(self._running_success())
            self._begin(torch.ones_like(self._marked))

    def _begin(self, mask: torch.Tensor) -> None:
        self._record("post_reset")
        self._buffers.begin(mask)
        masked_copy_(self._marked, False, mask)
        if self._retention is not None:
            self._retention.ring.start_episodes(mask)

    def _compute_end_codes(self) -> None:
        env = self._env
        success = self._marked & self._mark | ~self._marked & self._success(env)
        code = (
            env.reset_terminated * TERMINATED
            + env.reset_time_outs * TRUNCATED
            + success * SUCCESS
            + env.physics.non_finite * NON_FINITE
        )
        self._end_codes.copy_(code * env.reset_buf)

    def _running_success(self) -> torch.Tensor:
        """(N,) bool: an episode that is cut off succeeds only where somebody said so."""
        return self._marked & self._mark

    def _measure(self) -> None:
        """Calls every term once, to know its shapes, without a trace in the random generator."""
        generator = self._env.generator.get_state()
        for name, cfg in self._cfgs.items():
            try:
                self._buffers.declare(self._keys[name], self._call(name), cfg.phase)
            except RecorderError as error:
                raise TermError(f"{self._what(name)}: {error}") from error
        self._env.generator.set_state(generator)
        self._buffers.allocate()

    def _success_function(self) -> Callable[[RLEnv], torch.Tensor]:
        success = self.cfg.success
        if callable(success):
            return success
        manager = getattr(self._env, "termination_manager", None)
        names = [] if manager is None else manager.term_names
        if success is None and "success" not in names:
            return lambda env: torch.zeros_like(env.reset_buf)
        name = success or "success"
        if name not in names:
            raise ConfigError(f"recorder.success: {unknown_name_message('termination term', name, names)}")
        return lambda env: manager.get_term(name)  # pyright: ignore[reportOptionalMemberAccess]

    def _sinks(self, cfg: RecorderCfg, env: RLEnv, sinks: Sequence[EpisodeSink]) -> list[EpisodeSink]:
        if cfg.dataset is None:
            return list(sinks)
        from lab_core.recorder.writer import dataset_sinks  # h5py only where it is needed

        return [*dataset_sinks(cfg.dataset, env), *sinks]

    def _retained(self, what: str) -> Retention:
        if self._closed:
            raise RecorderError(f"{what}: the recorder is closed.")
        if self._retention is None:
            raise RecorderError(f"{what}: the recorder keeps no episodes; set recorder.retention.")
        return self._retention

    def _check_cfg(self, name: str, cfg: RecorderTermCfg) -> None:
        if cfg.phase not in get_args(Phase):
            raise TermError(f"{self._what(name)}: {unknown_name_message('phase', str(cfg.phase), get_args(Phase))}")
        if name in self._cfgs and (cfg.phase, cfg.key) != (self._cfgs[name].phase, self._cfgs[name].key):
            raise TermError(f"{self._what(name)}: phase and key cannot change while the recorder runs.")

    def _state_items(self) -> Iterable[tuple[str, Any]]:
        return ()  # a recorder decides nothing about the future

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        rows = [
            [field.key, field.shape, str(field.dtype).removeprefix("torch."), name, cfg.phase]
            for name, cfg in self._cfgs.items()
            for field in self._buffers.fields_of(self._keys[name])
        ]
        return ["key", "shape", "type", "term", "phase"], rows


_open_recorders: weakref.WeakSet[RecorderManager] = weakref.WeakSet()


def _close_at_exit(recorder: RecorderManager) -> None:
    """Closes what a program forgets to close."""
    _open_recorders.add(recorder)
    # Last in, first out: anew after the import of h5py, which shuts itself down at exit.
    atexit.unregister(_close_forgotten_recorders)
    atexit.register(_close_forgotten_recorders)


def _close_forgotten_recorders() -> None:
    for recorder in list(_open_recorders):
        recorder.close()
