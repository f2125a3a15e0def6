"""The hooks through which a recorder follows an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from lab_core.capability import CAPABLE, Capability


@dataclass(frozen=True)
class HookPart:
    """A part of a hook, for front ends that capture graphs."""

    name: str
    run: Callable[..., object]
    """Takes what the hook takes."""
    capturable: Capability = CAPABLE
    """Whether a graph of a GPU can hold it."""


class RecorderHooks:
    """Does nothing at every hook: what an environment has that is not recorded. Recorders override what they need.

    ``RLEnv.set_recorder`` lets one follow an environment.
    """

    parts_changed: Callable[[], object] | None = None
    """What a recorder calls whenever the parts of a hook have changed; set by the environment that it follows."""

    def hook_parts(self, hook: str) -> Sequence[HookPart]:
        """Returns what the hook of this name does, in order; of ``record_pre_step`` without :meth:`begin_step`."""
        if getattr(type(self), hook) is getattr(RecorderHooks, hook):
            return ()
        capturable = Capability(False, f"{type(self).__name__} does not tell its parts")
        return (HookPart(f"recorder: {hook}", getattr(self, hook), capturable),)

    def begin_step(self) -> None:
        """Before everything else in a step: all that needs the host."""

    def record_pre_step(self) -> None:
        """After the action is taken over, before it is applied."""

    def record_pre_physics(self) -> None:
        """After the action is applied, before the physics runs."""

    def record_post_physics(self) -> None:
        """After the physics has run, before counters, terminations and rewards: the state that the step led to."""

    def record_post_step(self) -> None:
        """After terminations, rewards, metrics, all that passes time, and final observations, before anything is reset:
        the state that the next step would begin with."""

    def record_pre_reset(self, mask: torch.Tensor) -> None:
        """Before the environments of ``mask`` (N,) bool are reset: their last state is still there."""

    def record_post_reset(self, mask: torch.Tensor) -> None:
        """After they are reset and their kinematics are up to date."""

    def reset(self, mask: torch.Tensor) -> dict[str, torch.Tensor | float]:
        """Returns what to log about the episodes that ended."""
        return {}

    def interrupt(self, mask: torch.Tensor) -> None:
        """Before the environments of ``mask`` (N,) bool are reset, or changed, from outside of a step."""

    def finish_step(self) -> None:
        """At the end of a step: all that needs the host. The hooks between it and :meth:`begin_step` stay on the
        device."""

    def close(self) -> None:
        """Finishes all files."""
