"""The recorder: copies what its terms return in every step, for consumers, a ring of episodes, and files."""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from lab_core.capability import Capability
from lab_core.config import check_complete, check_kinds
from lab_core.datasets.at_exit import close_at_exit, forget
from lab_core.datasets.episode import Episode
from lab_core.datasets.errors import RecorderError
from lab_core.datasets.writer import dataset_sinks
from lab_core.env import Env
from lab_core.errors import ConfigError, unknown_name_message
from lab_core.managers.checks import check_tensor
from lab_core.managers.manager_base import function_name
from lab_core.masks import EnvSelection, masked_copy_, resolve_mask
from lab_core.recorder.config import PHASES, RecorderCfg
from lab_core.recorder.hooks import HookPart, RecorderHooks
from lab_core.recorder.retention import EpisodeCounts, Retention
from lab_core.recorder.rows import RecordField
from lab_core.recorder.sinks import EpisodeSink
from lab_core.recorder.term_manager import RecorderTermManager
from lab_core.recorder.transition import Transition

Consumer = Callable[[Transition], object]


class RecorderManager(RecorderHooks):
    """Copies what its terms return into buffers of its own, for consumers, a ring of episodes, and files.

    It draws nothing at random and changes nothing outside itself: a recorded run is the run, bit for bit. Per step it
    works on the device alone, in place; the host learns of ended episodes from one int32 per environment
    (:class:`EndMonitor`), gathers them and hands them to the sinks.

    Recording begins when it is built, in the present state of every environment.

    Args:
        cfg: What to record; a deep copy is kept.
        env: The environment, built and reset.
        sinks: Receivers of ended episodes, besides the files of ``cfg.dataset``.

    Raises:
        TermError: a term is wrong; the message names it.
        ConfigError: a setting is impossible.
        RecorderError: the ring would exceed its memory limit, or the files cannot be written.
    """

    def __init__(self, cfg: RecorderCfg, env: Env, sinks: Sequence[EpisodeSink] = ()) -> None:
        check_complete(cfg)
        check_kinds(cfg, "recorder")
        self._env = env
        self.cfg = copy.deepcopy(cfg)
        self.terms = RecorderTermManager(cfg.terms, env, self._plan)
        """What it records."""
        self._buffers = self.terms.buffers
        self.transition = Transition(
            self._buffers.values, env.reset_terminated, env.reset_time_outs, env.reset_buf, step=0
        )
        self._consumers: list[Consumer] = []
        self._success = self._success_function()
        with torch.inference_mode(False):
            self._marked = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
            self._mark = torch.zeros_like(self._marked)
            self._end_flags = torch.zeros(env.num_envs, 4, dtype=torch.bool, device=env.device)
            self._end_codes = self._end_flags.view(torch.int32).squeeze(1)
        self._retention: Retention | None = None
        if cfg.retention is not None:
            self._retention = Retention(cfg.retention, self._buffers, env)
            self._retention.sinks += self._sinks(cfg, env, sinks)  # files only once the memory is granted
            print(f"Recorder: {self._retention.description}", file=sys.stderr)
        elif cfg.dataset is not None or sinks:
            raise ConfigError("recorder.dataset and sinks need recorder.retention: an episode is written when it ends.")
        self._closed = False
        self._step_open = self._step_announced = False
        self._plan()
        close_at_exit(self)
        rebuilt = weakref.WeakMethod(self._begin_anew)
        env.physics.rebuild_callbacks.append(lambda: (begin_anew := rebuilt()) and begin_anew())
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
        self._plan()

    def add_sink(self, sink: EpisodeSink) -> None:
        """Hands ``sink`` the episodes that end from now on.

        Raises:
            RecorderError: nothing is retained, or the recorder is closed.
        """
        self._retained("add_sink").sinks.append(sink)

    def get_episode(self, env_id: int) -> Episode:
        """Returns the running episode of an environment so far, as a copy that nothing changes any more. Waits for the
        device.

        A consumer gets the steps before the one that it is called in.

        Raises:
            RecorderError: nothing is retained, or the recorder is closed.
            IndexError: there is no such environment.
        """
        return self._retained("get_episode").running_episode(env_id)

    def add_to_episodes(self, key: str, value: Any, selection: EnvSelection = None) -> torch.Tensor:
        """Adds a value to the latest step of the selected environments' episodes.

        A key that no term records is stored from its first call on; ``valid/<key>`` tells the steps that have it.
        Environments whose episode has no step yet are left out. The last step of an episode can be reached by a
        consumer, not after ``step()`` has returned: the episode has been handed on by then.

        Args:
            key: ``/`` nests.
            value: (N, ...), or a nested dict of such.
            selection: Environments: bool mask (N,), indices, or None for all.

        Returns:
            (N,) bool, environments that were written to.

        Raises:
            RecorderError: the shape is wrong, a term records the key, nothing is retained, or it is closed.
        """
        retention = self._retained("add_to_episodes")
        mask = resolve_mask(selection, self._env.num_envs, self._env.device) & (retention.ring.length > 0)
        if retention.add_values(key, value, mask):
            self._plan()
        return mask

    def set_success_to_episodes(self, success: bool | torch.Tensor, selection: EnvSelection = None) -> None:
        """Decides whether the running episodes of the selected environments succeed, whatever the success term says.

        Args:
            success: bool, or (N,) bool.
            selection: Environments: bool mask (N,), indices, or None for all.

        Raises:
            RecorderError: the shape is wrong, nothing is retained, or it is closed.
        """
        self._retained("set_success_to_episodes")
        if isinstance(success, torch.Tensor) and (
            success.shape != (self._env.num_envs,) or success.dtype != torch.bool
        ):
            raise RecorderError(
                f"success must be a bool or a bool tensor ({self._env.num_envs},), got {success.dtype} "
                f"{tuple(success.shape)}."
            )
        mask = resolve_mask(selection, self._env.num_envs, self._env.device)
        masked_copy_(self._mark, success, mask)
        masked_copy_(self._marked, True, mask)

    # Hooks ----------------------------------------------------------------------------------------------------------

    def begin_step(self) -> None:
        if not self._closed:
            self._settle()
            self.terms.forget_replaced()
            self._step_open = self._step_announced = True

    def record_pre_step(self) -> None:
        if not self._step_announced:
            self.begin_step()
        self._step_announced = False
        self._run("record_pre_step")

    def record_pre_physics(self) -> None:
        self._run("record_pre_physics")

    def record_post_physics(self) -> None:
        self._run("record_post_physics")

    def record_post_step(self) -> None:
        self._run("record_post_step")

    def record_post_reset(self, mask: torch.Tensor) -> None:
        self._run("record_post_reset", mask)

    def hook_parts(self, hook: str) -> Sequence[HookPart]:
        if getattr(type(self), hook) is not getattr(RecorderManager, hook):
            return super().hook_parts(hook)  # a subclass does something of its own
        return self._parts.get(hook, ())

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        return self.terms.reset(mask)

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
        self._plan()
        forget(self)
        if self._retention is not None:
            self._retention.close(self._running_success())

    # Parts ----------------------------------------------------------------------------------------------------------

    def _run(self, hook: str, *args: torch.Tensor) -> None:
        for part in self._parts.get(hook, ()):
            part.run(*args)

    def _plan(self) -> None:
        """Decides anew what each hook does, and says so."""
        self._parts: dict[str, list[HookPart]] = {}
        if not self._closed:
            self._plan_hooks()
        if self.parts_changed is not None:
            self.parts_changed()

    def _plan_hooks(self) -> None:
        for phase in PHASES:
            self._parts[f"record_{phase}"] = self.terms.parts(phase)
        if self.cfg.poison_views:
            self._parts["record_pre_step"].insert(0, HookPart("poison_views", self._buffers.poison))
        post_step = self._parts["record_post_step"]
        if self._retention is not None:
            post_step.append(HookPart("insertion", self._retention.ring.insert))
        for consumer in self._consumers:
            call = partial(consumer, self.transition)
            capturable = Capability(False, "it is called as Python code")
            post_step.append(HookPart(f"recorder consumer {function_name(consumer)}", call, capturable))
        if self._retention is not None:
            known = not callable(self.cfg.success) or self.cfg.success_capturable
            capturable = Capability(known, "" if known else "success_capturable is not set")
            post_step.append(HookPart("recorder success", self._compute_end_codes, capturable))
        self._parts["record_post_reset"].append(HookPart("beginning", self._begin_marked))
        self._parts["reset"] = self.terms.reset_parts()

    def _settle(self) -> None:
        """After an error that cut off a step, and that somebody caught: ring and host must count the same steps and
        beginnings, and no episode goes on over a gap."""
        if self._step_open and self._retention is not None:
            self._retention.settle(self._running_success())
            self._begin(torch.ones_like(self._marked))
            self._retention.adopt_beginnings()
        self._step_open = False

    def _begin_anew(self) -> None:
        """After a rebuild of the physics, which put all environments into their default state."""
        if not self._closed:
            everywhere = torch.ones_like(self._marked)
            self.interrupt(everywhere)
            self._begin(everywhere)

    def _begin(self, mask: torch.Tensor) -> None:
        self._run("record_post_reset", mask)

    def _begin_marked(self, mask: torch.Tensor) -> None:
        """Begins episodes in the environments of ``mask`` (N,) bool with what was written for ``post_reset``."""
        self._buffers.begin(mask)
        if self._retention is not None:
            masked_copy_(self._marked, False, mask)
            self._retention.ring.start_episodes(mask)

    def _compute_end_codes(self) -> None:
        env = self._env
        said = self._success(env)
        check_tensor(said, (self._env.num_envs,), "recorder.success", torch.bool)
        success = torch.where(self._marked, self._mark, said)
        flags = (env.reset_terminated, env.reset_time_outs, success, env.physics.non_finite)
        torch.stack(flags, dim=1, out=self._end_flags)
        self._end_flags.logical_and_(env.reset_buf[:, None])

    def _running_success(self) -> torch.Tensor:
        """(N,) bool: an episode that is cut off succeeds only where somebody said so."""
        return self._marked & self._mark

    def _success_function(self) -> Callable[[Env], torch.Tensor]:
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

    def _sinks(self, cfg: RecorderCfg, env: Env, sinks: Sequence[EpisodeSink]) -> list[EpisodeSink]:
        if cfg.dataset is None:
            return list(sinks)
        return [*dataset_sinks(cfg.dataset, env), *sinks]

    def _retained(self, what: str) -> Retention:
        if self._closed:
            raise RecorderError(f"{what}: the recorder is closed.")
        if self._retention is None:
            raise RecorderError(f"{what}: the recorder keeps no episodes; set recorder.retention.")
        return self._retention

    def __str__(self) -> str:
        return str(self.terms)
