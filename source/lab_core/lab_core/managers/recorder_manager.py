"""The hooks through which a recorder follows an environment, and the recorder that records nothing."""

from __future__ import annotations

import torch

from lab_core.state import Stateful


class NullRecorderManager(Stateful):
    """Does nothing at every hook; recorders override the hooks that they need."""

    def record_pre_step(self) -> None:
        """After the action is taken over, before it is applied."""

    def record_pre_physics(self) -> None:
        """After the action is applied, before the physics runs."""

    def record_post_step(self) -> None:
        """After terminations, rewards, metrics and final observations, before anything is reset."""

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
        """At the end of a step: all that needs the host. The other hooks of a step stay on the device."""

    def close(self) -> None:
        """Finishes all files."""
