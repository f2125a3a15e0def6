"""The step of a Warp environment: one captured stage, from the action to the observations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import Any

import torch
import warp as wp

from lab_core.capability import Capability, all_capable
from lab_core.envs import STEP, MarkStage, Observations, RLEnv, copy_observations, run_stages, write_observations
from lab_core.recorder import RecorderHooks
from lab_core.seeding import make_generator, seed_everything
from lab_warp.capture import CaptureContext, Island, StageReport, capture_torch, captured, captured_stages, eager
from lab_warp.env import EnvArrays
from lab_warp.envs.live_step import LiveStep
from lab_warp.envs.log import WarpEpisodeLog
from lab_warp.managers import EventManagerWarp, kernels
from lab_warp.progress import Progress, quiet_warp
from lab_warp.rng import WarpRng
from lab_warp.scene import write_default_state
from lab_warp.views import Shared, share_entity

_CAPTURED = [stage for stage in STEP if not stage.on_host]
_ON_HOST = [stage for stage in STEP if stage.on_host]


class WarpRLEnv(RLEnv):
    """Steps and resets as :class:`lab_core.envs.RLEnv` does, from the same configuration, as Warp code.

    The whole step is one captured stage. Where all of it can be captured it is one graph; what cannot be runs at its
    place between two graphs, and :meth:`capture_report` says what and why. Environments to reset are named by
    ``warp.reset_mask``; if all work of a reset can be captured, a step in which nothing ends leaves it out.

    Attributes:
        warp: Warp arrays that terms share.
        rng: The random streams. Torch terms draw from ``generator`` instead.
        log: Where managers report episodes.
    """

    event_manager: EventManagerWarp
    log: WarpEpisodeLog

    # Construction -------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self.wp_device: wp.Device = wp.get_device(str(self.device))  # also starts Warp, which the physics may not use
        context = self.physics.capture_context
        self.capture_context = context if isinstance(context, CaptureContext) else CaptureContext(self.wp_device)
        for entity in self.scene.values():
            if entity.data.warp is None:
                share_entity(entity.data)
        self.rng = WarpRng(self.num_envs, self.wp_device, make_generator(self.seed, stream="warp").initial_seed())
        self.rng_state = wp.to_torch(self.rng.state.view(wp.int32))
        self.rng_global_state = wp.to_torch(self.rng.global_state.view(wp.int32))
        self.reset_count = self.scratch(torch.zeros(1, dtype=torch.int32, device=self.device))
        """(1,) environments that are being reset."""
        self._step_count_array = self.scratch(torch.zeros(1, dtype=torch.int64, device=self.device))
        self.warp = EnvArrays(
            rng=self.rng.state,
            episode_length=wp.from_torch(self.episode_length_buf),
            env_origins=wp.from_torch(self.scene.env_origins, dtype=wp.vec3),
            written=wp.from_torch(self.physics.written),
            non_finite=wp.from_torch(self.physics.non_finite),
            reset_mask=wp.from_torch(self.reset_mask),
            reset_count=wp.from_torch(self.reset_count),
            step_count=wp.from_torch(self._step_count_array),
        )
        self._reset = self.scratch(Shared(self.warp.reset_mask, self.reset_mask))
        self.log = WarpEpisodeLog(self.device)
        self._pending_capture = ""
        self._has_run: set[str] = set()
        self._replaced: list[object] = self.scratch([])
        self._changes: list[Callable[[], None]] = []
        self._live = self.scratch(LiveStep(self.capture_context, self._take_actions, self._step))
        self.physics.rebuild_callbacks.append(lambda: self.request_capture("the physics was rebuilt"))

    def _load_event_manager(self) -> None:
        self.event_manager = EventManagerWarp(self.cfg.events, self)

    @RLEnv.step_count.setter
    def step_count(self, count: int) -> None:
        self._step_count = count
        self._step_count_array.fill_(count)

    # Step and reset -----------------------------------------------------------------------------------------------

    def step(
        self, actions: torch.Tensor
    ) -> tuple[Observations, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        with torch.no_grad():
            self._take_actions(actions)
            with self._around_graphs():
                self._step()
            return self._results()

    def step_live(self, act: Callable[[], torch.Tensor], keep: Callable[[], None]) -> None:
        with torch.no_grad():
            expected = bool(self.live_capture)
            if not expected:
                self._take_actions(act())
            with self._around_graphs():
                # The graphs may just have been dropped, for a setting that has changed.
                if not (expected and self.live_capture and self._live(act, keep)):
                    if expected:
                        self._take_actions(act())
                    self._step()
                    keep()

    @property
    def live_capture(self) -> Capability:
        return self._live.capability(next((r for r in self.capture_report() if r.stage.endswith("._step")), None))

    @contextmanager
    def _around_graphs(self) -> Iterator[None]:
        """What a step needs of the host, around its graphs."""
        self._copy_settings()
        if self._pending_capture:
            self._drop_graphs()
        self.recorder_manager.begin_step()
        self._latest.reset_ids = None
        self._step_count += 1  # now, for what runs between graphs; the device counts after the physics
        with self._first_run("the step"):
            yield
        self._make_changes()
        run_stages(self, _ON_HOST)
        self._first_steps.look(self.physics)

    @captured
    def _step(self) -> None:
        run_stages(self, _CAPTURED, self._mark)

    def _results(self) -> tuple[Observations, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        terminated, truncated, _, cut_off = self._flags_buf.clone().unbind()
        extras: dict[str, Any] = {}
        if self.cfg.compute_final_obs:
            extras["final_obs"] = copy_observations(self.final_obs_buf)
        if not self.cfg.is_finite_horizon:
            extras["time_outs"] = cut_off
        extras["reset_count"] = self.reset_count.long().squeeze(0)
        extras["log"] = self.log.values()
        self._latest.extras = extras
        return copy_observations(self._observations), self.reward_buf.clone(), terminated, truncated, extras

    @captured
    def _reset_stage(self) -> None:
        self._reset_masked()

    @captured
    def _state_given_stage(self) -> None:
        """What follows the state of a reset from outside."""
        self._finish_reset()

    @captured
    def _begin_reset_stage(self) -> None:
        self._begin_reset()

    @captured
    def _observe_reset_stage(self) -> None:
        self._observe(self._reset)

    def _record(self, hook: str) -> None:
        if hook in ("record_pre_reset", "record_post_reset"):
            self._call_recorder(hook, self.reset_mask)
        elif hook == "finish_step":
            self._recorder.finish_step()
        else:
            self._call_recorder(hook)

    def _step_physics(self) -> None:
        self._physics_call(self.physics.step, self.cfg.decimation)

    def _update_terminations(self) -> None:
        wp.launch(
            kernels.count_step,
            dim=self.num_envs,
            outputs=[self.warp.episode_length, self.warp.step_count, self.warp.reset_count],
            device=self.wp_device,
        )
        self._compute_dones()

    def _reset_done(self) -> None:
        """Resets the environments that are done; a graph that can hold all of it leaves it out where none is."""
        if self.capture_context.enabled and self._reset_capability():
            wp.capture_if(self.warp.reset_count, on_true=self._reset_masked)
        else:
            self._reset_masked()

    def _reset_masked(self) -> None:
        self._begin_reset()
        self._finish_reset()

    def _begin_reset(self) -> None:
        """Curriculum, default state, reset events."""
        self._curriculum_masked()
        write_default_state(self, self.warp.reset_mask)
        self._physics_call(self.physics.reset, self.reset_mask)
        self._draw_state_masked()

    def _finish_reset(self) -> None:
        """Managers and counters, when the new state is known."""
        self._reset_managers_masked()
        self._call_recorder("reset", self.reset_mask)
        wp.launch(
            kernels.clear_counter,
            dim=self.num_envs,
            inputs=[self.warp.reset_mask],
            outputs=[self.warp.episode_length],
            device=self.wp_device,
        )
        self._physics_call(self.physics.forward)
        self._refresh_masked()

    def _reset_from_outside(
        self,
        mask: torch.Tensor,
        seed: int | None,
        state: Mapping[str, Any] | None = None,
        is_relative: bool = False,
    ) -> tuple[Observations, dict[str, Any]]:
        with torch.no_grad():
            self.recorder_manager.interrupt(mask)
            self.recorder_manager.record_pre_reset(mask)
            if seed is not None:
                self._seed(seed)
            self._copy_settings()
            if self._pending_capture:
                self._drop_graphs()
            self._announce_reset(mask)
            self.reset_count.copy_(mask.sum())
            if state is None:
                with self._first_run("resets"):
                    self._reset_stage()
            else:
                self._begin_reset_stage()
                self.scene.set_state(state, mask, is_relative)
                self._state_given_stage()
            self.recorder_manager.record_post_reset(mask)
            before = copy_observations(self._observations)
            with self._first_run("observations"):
                self._observe_reset_stage()
            self._make_changes()
            write_observations(self._observations, before, ~mask)
        self._latest.extras = {"log": self.log.values()}
        return self.get_observations(), self._latest.extras

    def _seed(self, seed: int) -> None:
        self.seed = seed_everything(seed, self.cfg.deterministic)
        self.generator.set_state(make_generator(self.seed, self.device, "environment").get_state())
        self.rng.seed(make_generator(self.seed, stream="warp").initial_seed())
        self.physics.seed(self.seed)
        self.scene.seed(self.seed)

    def _apply_interval_events(self) -> None:
        if self.event_manager.has_mode("interval"):
            self.event_manager.apply_interval(self.step_dt)
            self._physics_call(self.physics.forward)

    # Capture ------------------------------------------------------------------------------------------------------

    def request_capture(self, reason: str, replaced: object = None) -> None:
        """Lets the next step be captured anew, because something changed that its graphs fix.

        Args:
            reason: What changed, for the report.
            replaced: Whatever owns memory that the graphs of now use; kept until they are dropped. A graph on a GPU
                does not keep it, and a term between two graphs may ask while the step still runs.
        """
        self._pending_capture = reason
        self._replaced.append(replaced)

    def change_after_stages(self, change: Callable[[], None]) -> None:
        """Calls ``change`` when the running step or reset is done: until then graphs go on as they are, and so must
        what runs between them or eagerly."""
        self._changes.append(change)

    def capture_report(self) -> list[StageReport]:
        """Returns how the stages of this environment run: what is captured, and what runs between graphs, and why."""
        return [stage.report() for stage in captured_stages(self)]

    @contextmanager
    def mark_stages(self, mark: MarkStage) -> Iterator[None]:
        """As in every environment, but the marks become part of the captured step.

        On a GPU ``mark`` is called when the step is captured, and what it does there must be able to be captured, as an
        external event of torch is. On a CPU it is called in every step, between two graphs.
        """
        try:
            with super().mark_stages(lambda stage: capture_torch(mark, stage)):
                self.request_capture("its stages are marked")
                yield
        finally:
            self.request_capture("its stages are no longer marked")

    @contextmanager
    def _first_run(self, what: str) -> Iterator[None]:
        """Around a stage: kernels that are launched for the first time may have to be compiled."""
        if what in self._has_run:
            yield
            return
        with quiet_warp(), Progress("Compiling kernels (first run only)") as progress:
            progress.show(what)
            yield
        self._has_run.add(what)

    def _drop_graphs(self) -> None:
        for stage in captured_stages(self):
            stage.drop_graphs(self._pending_capture)
        self._pending_capture = ""
        self._replaced.clear()

    def _make_changes(self) -> None:
        changes, self._changes = self._changes, []
        for change in changes:
            change()

    def _physics_call(self, function: Callable[..., None], *args: Any) -> None:
        if self.physics.capturable:
            function(*args)
        else:
            eager(Island(f"physics {self.cfg.physics.backend}: {self.physics.capturable.reason}", function), *args)

    def _call_recorder(self, hook: str, *args: Any) -> None:
        for capturable, parts in groupby(self.recorder_manager.hook_parts(hook), attrgetter("capturable")):
            if capturable:
                capture_torch(Island(f"recorder: {hook}", _run_parts), [part.run for part in parts], *args)
            else:
                for part in parts:
                    eager(Island(f"{part.name}: {capturable.reason}", part.run), *args)

    def _recorder_changed(self, replaced: RecorderHooks | None = None) -> None:
        self.request_capture("the recorder changed", replaced)

    # What kinds of environments add -------------------------------------------------------------------------------

    @property
    def _flags_buf(self) -> torch.Tensor:
        """(4, N) bool: terminated, time-outs, either, time-outs alone."""
        raise NotImplementedError

    def _copy_settings(self) -> None:
        """Hands changed settings to the device, before the captured stage."""
        self.event_manager.copy_settings()

    def _observe(self, mask: Shared | None = None) -> None:
        """Computes the observations; memories move on everywhere or in the environments of ``mask``."""
        raise NotImplementedError

    def _reset_capability(self) -> Capability:
        """Whether a graph can hold all work of a reset."""
        parts = self.recorder_manager.hook_parts("reset")
        torch_fits = Capability(not parts or self.wp_device.is_cuda, "torch cannot be captured on the CPU")
        hooks = (part.capturable for part in parts)
        return all_capable([self.physics.capturable, self.event_manager.capturable, torch_fits, *hooks])

    def _curriculum_masked(self) -> None:
        """Adapts the difficulty before the reset."""

    def _draw_state_masked(self) -> None:
        """Draws the state of the environments that are being reset."""
        self.event_manager.apply_reset(self._reset)

    def _reset_managers_masked(self) -> None:
        """Resets the managers."""
        self.event_manager.reset(self._reset)

    def _refresh_masked(self) -> None:
        """Adapts commands to the state after the reset."""


def _run_parts(parts: Sequence[Callable[..., object]], *args: Any) -> None:
    for part in parts:
        part(*args)
