"""The step and the reset that every environment shares."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from lab_core.capability import Capability
from lab_core.config import check_complete, check_kinds
from lab_core.envs.built_from import built_from, constants_kept
from lab_core.envs.episode_log import EpisodeLog
from lab_core.envs.first_steps import FirstSteps
from lab_core.envs.latest_step import LatestStep
from lab_core.envs.observations import Observations, copy_observations, write_observations
from lab_core.envs.rl_env_cfg import RLEnvCfg, check_timing
from lab_core.envs.staged_env import StagedEnv
from lab_core.envs.stages import STEP, MarkStage, run_stages
from lab_core.errors import LabError
from lab_core.managers import EventManager
from lab_core.masks import EnvSelection, resolve_mask
from lab_core.physics import HealthReport, PhysicsBackend
from lab_core.recorder import RecorderHooks, RecorderManager
from lab_core.registry import backend_class
from lab_core.scene import Scene
from lab_core.seeding import make_generator, one_seed, seed_everything
from lab_core.state import StateRoot, lasting_tensors


class RLEnv(StagedEnv, VectorEnv, StateRoot):
    """N environments that are stepped and reset together, with same-step autoreset.

    Everything that selects environments is a bool mask (N,). Buffers keep their addresses; what :meth:`step` and
    :meth:`reset` return inside dictionaries is an owned copy.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": ["rgb_array"]}
    _state_fields = ("step_count",)

    @lasting_tensors()
    def __init__(self, cfg: RLEnvCfg, device: str | torch.device = "cpu") -> None:
        """Builds the environment and resets all environments.

        Args:
            cfg: The configuration; a deep copy is kept.
            device: Where all tensors live.

        Raises:
            IncompleteConfigError: fields of ``cfg`` are missing.
            ConfigError: a field has an impossible value.
        """
        check_complete(cfg)
        check_kinds(cfg)
        check_timing(cfg)
        self.cfg = copy.deepcopy(cfg)
        self.cfg.physics.deterministic = cfg.physics.deterministic or cfg.deterministic
        self.device = torch.empty(0, device=device).device  # "cuda" becomes the present GPU, "cuda:0"
        self.num_envs = cfg.scene.resolve_num_envs(self.device)
        self.seed = seed_everything(cfg.seed, cfg.deterministic)
        self.generator = make_generator(self.seed, self.device, "environment")
        terrain = self.cfg.scene.terrain
        if terrain is not None and terrain.seed is None:
            terrain.seed = self.seed
        self.render_mode = "rgb_array"

        self.physics: PhysicsBackend = backend_class(cfg.physics.backend)(
            self.cfg.physics, self.cfg.scene, self.num_envs, self.device
        )
        self.physics.seed(self.seed)
        self.scene = Scene(self.cfg.scene, self.physics)
        self.physics_dt = self.physics.dt
        self.step_dt = self.physics_dt * cfg.decimation
        self.max_episode_length_s = cfg.episode_length_s
        # A hair below the quotient, so that 5 s / (2 / 120 s) is 300 steps in spite of rounding.
        self.max_episode_length = math.ceil(cfg.episode_length_s / self.step_dt - 1e-6)
        self.metadata = {**self.metadata, "render_fps": round(1.0 / self.step_dt)}

        def flags() -> torch.Tensor:
            return torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)

        self._step_count = 0
        self._episode_length = self.scratch(torch.zeros(self.num_envs, dtype=torch.int64, device=self.device))
        self.reset_buf, self.reset_terminated, self.reset_time_outs = flags(), flags(), flags()
        self.reward_buf = self.scratch(torch.zeros(self.num_envs, device=self.device))
        self._latest = LatestStep()
        self._first_steps = FirstSteps()
        self._all = self.scratch(torch.ones_like(self.reset_buf))
        self.log = EpisodeLog(self.device)
        self.reset_mask = self.scratch(flags())
        """(N,) bool, environments of the reset that is under way, or of the latest one."""
        self._observations: Observations = {}
        self._mark: MarkStage | None = None

        self._prepare()
        self._load_event_manager()
        self.event_manager.apply("prestartup")
        self._recorder = RecorderHooks()
        self._load_managers()
        self.event_manager.apply("startup")
        # A physics that was built anew has the properties of the configuration.
        self.physics.rebuild_callbacks.append(lambda: self.event_manager.apply("startup"))
        self.reset()
        if self.cfg.recorder is not None:
            self.set_recorder(RecorderManager(self.cfg.recorder, self))

    def _load_event_manager(self) -> None:
        """Creates the event manager, which exists before all others."""
        self.event_manager = EventManager(self.cfg.events, self)

    @property
    def recorder_manager(self) -> RecorderHooks:
        """What records this environment; see :meth:`set_recorder`."""
        return self._recorder

    @property
    def is_recorded(self) -> bool:
        """Whether a recorder does anything at its hooks."""
        return type(self._recorder) is not RecorderHooks

    def set_recorder(self, recorder: RecorderHooks) -> None:
        """Lets ``recorder`` follow every step and reset from now on, and the one before no longer; it stays open.

        ``RecorderHooks()`` records nothing.
        """
        replaced, self._recorder = self._recorder, recorder
        replaced.parts_changed = None
        recorder.parts_changed = self._recorder_changed
        self._recorder_changed(replaced)

    def _recorder_changed(self, replaced: RecorderHooks | None = None) -> None:
        """Another recorder has come in place of ``replaced``, or this one changed what its hooks do."""

    @property
    def extras(self) -> Mapping[str, Any]:
        """What the latest step or reset returned beside observations, rewards and ends; writing into it is refused."""
        return self._latest.read_only_extras()

    @property
    def final_obs_buf(self) -> Observations:
        """The end of the latest step as ``extras["final_obs"]`` shows it; empty where it is not computed."""
        return self._latest.final_obs

    # Step and reset ------------------------------------------------------------------------------------------------

    def step(
        self, actions: torch.Tensor
    ) -> tuple[Observations, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Advances every environment by ``step_dt`` and resets those that are done.

        The order is that of :data:`lab_core.envs.stages.STEP`. Rewards and terminations see the state that the step
        led to, and the command that was followed in it. Then time passes: interval events act, commands move on. What
        is reset after that is as after :meth:`reset` with a mask: the returned observations show it.

        Args:
            actions: (N, A).

        Returns:
            Observations; reward (N,); terminated (N,) bool; truncated (N,) bool; extras with ``log`` (values of the
            latest step in which an environment was reset), ``reset_count`` (0-d, environments reset in this step),
            ``time_outs`` (N,) bool (truncated and not terminated; absent for a finite horizon) and ``final_obs``.

        Raises:
            LabError: the action has the wrong shape, or on a CPU, is not finite.
        """
        with torch.no_grad():
            self._take_actions(actions)
            run_stages(self, STEP, self._mark)
            self._first_steps.look(self.physics)
            return self._results()

    def step_live(self, act: Callable[[], torch.Tensor], keep: Callable[[], None]) -> None:
        """Makes a step as :meth:`step` does, and hands nothing over: what it led to lies in buffers.

        For a loop without Python. Where :attr:`live_capture` says so, both functions become part of what is captured of
        the step, and their code runs no more. So they work with tensors that stay where they are, read nothing on the
        host and draw no random numbers. :attr:`extras` stays that of the latest step or reset that returned one.

        Args:
            act: Returns the actions (N, A) for ``obs_buf``.
            keep: Called behind the step; it may read ``reward_buf``, ``reset_terminated``, ``reset_time_outs``,
                ``reset_buf``, ``final_obs_buf``, ``obs_buf`` and ``log``.

        Raises:
            LabError: the action has the wrong shape, or on a CPU, is not finite.
        """
        with torch.no_grad():
            self._take_actions(act())
            run_stages(self, STEP, self._mark)
            keep()

    @property
    def live_capture(self) -> Capability:
        """Whether :meth:`step_live` is one graph, with what it is given in it, as known from the latest step."""
        return Capability(False, "this front end captures nothing of a step")

    def _results(self) -> tuple[Observations, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Returns what a step returns."""
        reward, terminated, truncated = (
            buffer.clone() for buffer in (self.reward_buf, self.reset_terminated, self.reset_time_outs)
        )
        extras: dict[str, Any] = {}
        if self.cfg.compute_final_obs:
            extras["final_obs"] = self.final_obs_buf
        if not self.cfg.is_finite_horizon:
            extras["time_outs"] = truncated & ~terminated
        extras["reset_count"] = self.reset_buf.sum()
        extras["log"] = self.log.values()
        self._latest.extras = extras
        return self._latest.observations, reward, terminated, truncated, extras

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        mask: EnvSelection = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observations, dict[str, Any]]:
        """Resets the selected environments.

        Args:
            seed: Seeds all random draws anew before the reset. Of a list, one number per environment, one seed is made:
                all environments draw from the same streams.
            mask: Environments to reset: (N,) bool mask or list of indices; None: all.
            options: ``{"reset_mask": mask}``, as gymnasium passes it.

        Returns:
            Observations of all environments (the latest ones of those that were not reset), and extras with ``log``.
        """
        if mask is None and options:
            mask = options.get("reset_mask")
            mask = torch.as_tensor(mask, device=self.device) if isinstance(mask, np.ndarray) else mask
        return self._reset_from_outside(resolve_mask(mask, self.num_envs, self.device).clone(), one_seed(seed))

    def reset_to(
        self, state: Mapping[str, Any], mask: EnvSelection = None, is_relative: bool = False
    ) -> tuple[Observations, dict[str, Any]]:
        """Resets the selected environments and puts them into ``state``; see :meth:`Scene.get_state`.

        Joint targets become the stored joint positions. What actuators remember (delays, networks) is not part of a
        state: it starts empty.
        """
        self.scene.check_state(state)
        selected = resolve_mask(mask, self.num_envs, self.device).clone()
        return self._reset_from_outside(selected, None, state, is_relative)

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
                self.seed = seed_everything(seed, self.cfg.deterministic)
                self.generator.set_state(make_generator(self.seed, self.device, "environment").get_state())
                self.physics.seed(self.seed)
                self.scene.seed(self.seed)
            self._announce_reset(mask)
            self._reset_envs(state, is_relative)
            self.recorder_manager.record_post_reset(mask)
            observations = self._compute_observations(update_history=mask)
            if not self._observations:
                self._observations = copy_observations(observations)
            write_observations(self._observations, observations, mask)
        self._latest.extras = {"log": self.log.values()}
        return self.get_observations(), self._latest.extras

    def reset_ids(self) -> torch.Tensor:
        """Returns the indices of the environments being reset (int64), derived once per reset.

        It waits for the device: only for terms that truly need indices.
        """
        if self._latest.reset_ids is None:
            self._latest.reset_ids = self.reset_mask.nonzero().flatten()
        return self._latest.reset_ids

    @contextmanager
    def mark_stages(self, mark: MarkStage) -> Iterator[None]:
        """Inside, every step calls ``mark`` at the end of each stage, and with ``""`` where it begins; for the stages
        see :data:`lab_core.envs.stages.STEP`."""
        outer, self._mark = self._mark, mark
        try:
            yield
        finally:
            self._mark = outer

    def advance(self, actions: torch.Tensor) -> None:
        """Acts and runs the physics as a step does, and nothing else: no counters, ends, resets, commands or events.

        For those who repeat or probe what a robot does.

        Args:
            actions: (N, A).
        """
        with torch.no_grad():
            self._take_actions(actions)
            self._process_actions()
            self._apply_actions()
            self._step_physics()

    # State, pictures, end ------------------------------------------------------------------------------------------

    def _state_items(self) -> Iterable[tuple[str, Any]]:
        return [*super()._state_items(), ("episode_length_buf", self.episode_length_buf)]

    def state_dict(self) -> dict[str, Any]:
        """Returns all state that decides the future: physics, managers, counters and random generator."""
        return {
            "environment": super().state_dict(),
            "physics": self.physics.state_dict(),
            "built_from": built_from(self.cfg.scene.entities, self.cfg.events),
        }

    @lasting_tensors()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores :meth:`state_dict` in place.

        Constants of an entity (default state, limits, gains, masses, friction) stay as they were built where its
        settings, or the startup events, are others than those of the state.

        Raises:
            LabError: the state belongs to another environment.
        """
        stored, own = state.get("built_from", {}), built_from(self.cfg.scene.entities, self.cfg.events)
        edited = [name for name in own if stored.get(name, own[name]) != own[name]]
        try:
            super().load_state_dict(state["environment"])
            with constants_kept(self.physics, edited):
                self.physics.load_state_dict(state["physics"])
        except (KeyError, ValueError) as error:
            raise LabError(f"The stored environment state does not fit this environment: {error}") from error
        self.recorder_manager.interrupt(self._all)
        self.recorder_manager.record_post_reset(self._all)

    @property
    def obs_buf(self) -> Observations:
        """The latest observations as live buffers, which the next step overwrites."""
        return self._observations

    def get_observations(self) -> Observations:
        """Returns the latest observations again, as owned copies."""
        return copy_observations(self._observations)

    def render(self) -> tuple[np.ndarray]:
        """Returns a uint8 RGB picture (height, width, 3) of ``cfg.scene.camera``, in a tuple for gymnasium."""
        return (self.physics.render(self.cfg.scene.camera),)

    def health(self) -> HealthReport:
        """Reads and clears what went wrong since the last call; it waits for the device, so once per iteration.

        Raises:
            ActionError: an action was not finite.
            CapacityError: a solver buffer overflowed and the configuration forbids it.
        """
        self._raise_for_invalid_actions()
        return self._first_steps.health(self.physics)

    def close_extras(self, **kwargs: Any) -> None:
        """Releases the physics; called once by ``close()``."""
        try:
            self.recorder_manager.close()
        finally:
            self.physics.close()

    def _set_spaces(self, num_actions: int, observations: dict[str, Any]) -> None:
        """Declares gymnasium spaces from the action width and the shapes of the observation groups.

        ``observations`` maps a group to its shape without the environment axis, or to term -> shape.
        """

        def space(shapes: Any, lead: tuple[int, ...]) -> gymnasium.Space:
            if isinstance(shapes, dict):
                return gymnasium.spaces.Dict({name: space(shape, lead) for name, shape in shapes.items()})
            return gymnasium.spaces.Box(-np.inf, np.inf, (*lead, *shapes), np.float32)

        self.single_observation_space = space(observations, ())
        self.observation_space = space(observations, (self.num_envs,))
        self.single_action_space = space((num_actions,), ())
        self.action_space = space((num_actions,), (self.num_envs,))
