"""What Warp twins and managers may use of an environment, beyond :class:`lab_core.env.Env`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
import warp as wp

from lab_core.env import Action, Actions, Command, Commands, Env, ManagerBasedEnv, Terminations

if TYPE_CHECKING:
    from lab_warp.capture import CaptureContext
    from lab_warp.rng import WarpRng


@dataclass
class EnvArrays:
    """Warp arrays over the memory of an environment's buffers, for kernels."""

    rng: wp.array
    """(N,) uint32, random streams of the environments."""
    step_count: wp.array
    """(1,) int64, steps made."""
    episode_length: wp.array
    """(N,) int64, steps of the running episodes."""
    env_origins: wp.array
    """(N,) vec3, origins of the environments in the world frame [m]."""
    written: wp.array
    """(N,) bool, environments whose state was authored since the last physics step."""
    non_finite: wp.array
    """(N,) bool, environments whose physics went non-finite in this step."""
    reset_mask: wp.array
    """(N,) bool, environments that are being reset."""
    reset_count: wp.array
    """(1,) int32, their number."""


@dataclass
class ActionArrays:
    """The action for kernels."""

    action: wp.array
    """(N, A) of this step."""
    prev_action: wp.array
    """(N, A) of the step before."""


@dataclass
class ActionTermArrays:
    """One part of the action for kernels."""

    raw_actions: wp.array
    """(N, D) columns of the action."""


@dataclass
class CommandArrays:
    """One command for kernels."""

    command: wp.array
    """(N, D)."""


@dataclass
class ClipCommandArrays(CommandArrays):
    """A command that plays clips, for kernels."""

    clip: wp.array
    """(N,) int64."""
    frame: wp.array
    """(N,) int64, what the policy is shown."""
    clip_lengths: wp.array
    """(C,) int64 [frames]."""


@dataclass
class OrientationGoalArrays(CommandArrays):
    """A goal of an orientation (N, 7), for kernels."""

    tolerance: wp.array
    """(1,) [rad]."""
    is_given: wp.array
    """(N,) bool, goals that a reset gave away."""


@dataclass
class RewardArrays:
    """What the K terms of the reward are worth, for kernels."""

    step_reward: wp.array
    """(N, K) weighted terms of the latest step, per second."""
    weights: wp.array
    """(K,)."""


@dataclass
class TerminationArrays:
    """Why episodes ended in the latest step, for kernels."""

    terminated: wp.array
    """(N,) bool."""
    time_outs: wp.array
    """(N,) bool."""
    dones: wp.array
    """(N,) bool, either of them."""


class WarpEnv(Env, Protocol):
    """An environment whose step is Warp code: captured once, replayed afterwards."""

    wp_device: wp.Device
    capture_context: CaptureContext
    rng: WarpRng
    """Random streams of kernels; torch terms draw from ``generator``."""
    reset_count: torch.Tensor
    """(1,) int32, environments that are being reset."""

    @property
    def warp(self) -> EnvArrays:
        """Arrays for kernels."""
        ...

    @property
    def log(self) -> Log:
        """Where managers report episodes."""
        ...

    def request_capture(self, reason: str, replaced: object = None) -> None:
        """Lets the next step be captured anew, because something changed that its graphs fix.

        Args:
            reason: What changed, for the report.
            replaced: What owns memory that the graphs of now use; kept until they are dropped.
        """
        ...

    def change_after_stages(self, change: Callable[[], None]) -> None:
        """Calls ``change`` when the running step or reset is done."""
        ...


class Log(Protocol):
    """Slots on the device for values that are reported when environments reset."""

    def reserve(self, names: Sequence[str]) -> tuple[wp.array, torch.Tensor]:
        """Returns slots (K,) for values with these names, as a Warp array and as a tensor."""
        ...

    def slot(self, name: str) -> tuple[wp.array, torch.Tensor]:
        """Returns the slot (1,) of a name, taken or new."""
        ...

    def put(self, name: str, value: torch.Tensor | float, reset_count: torch.Tensor) -> None:
        """Stores a value of torch code if anything was reset."""
        ...


class ManagerBasedWarpEnv(WarpEnv, ManagerBasedEnv, Protocol):
    """A Warp environment that is made of managers."""

    @property
    def command_manager(self) -> WarpCommands: ...
    @property
    def action_manager(self) -> WarpActions: ...
    @property
    def termination_manager(self) -> WarpTerminations: ...


class WarpActions(Actions, Protocol):
    """The action, also for kernels."""

    @property
    def warp(self) -> ActionArrays: ...

    def get_term(self, name: str) -> WarpAction: ...


class WarpAction(Action, Protocol):
    """One part of the action, also for kernels."""

    @property
    def warp(self) -> ActionTermArrays: ...


class WarpCommands(Commands, Protocol):
    """Commands, also for kernels."""

    def get_term(self, name: str) -> WarpCommand: ...


class WarpCommand(Command, Protocol):
    """One command, also for kernels."""

    @property
    def warp(self) -> CommandArrays: ...


class WarpTerminations(Terminations, Protocol):
    """Why episodes ended, also for kernels."""

    @property
    def warp(self) -> TerminationArrays: ...
