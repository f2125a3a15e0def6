"""The learned dynamics: how velocities change over an environment step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lab_rl.supermimic.motion import RobotMotion
from lab_rl.supermimic.networks import ResidualMLP
from lab_rl.supermimic.normalizer import RunningNormalizer
from lab_rl.supermimic.state import RobotState

_RARE = -4.0
"""Logit of an event at first, about 1 in 50: a reward that counts events is not to reign before they were learned."""


class WorldModel(torch.nn.Module):
    """Predicts the next state from state, joint targets and context, and events of the step, such as that bodies touch.

    At first it predicts that velocities stay, and few events.

    Args:
        motion: What it sees and predicts.
        num_targets: A.
        num_context: C.
        num_events: E.
        hidden_dims: Widths of the hidden layers.
    """

    def __init__(
        self, motion: RobotMotion, num_targets: int, num_context: int, num_events: int, hidden_dims: Sequence[int]
    ) -> None:
        super().__init__()
        self.motion = motion
        width = motion.num_features + num_targets + num_context
        self.inputs = RunningNormalizer(width)
        self.changes = RunningNormalizer(motion.num_increments, limit=None)
        """Statistics of increments; only their standard deviation scales predictions, so that zero stays zero."""
        self.network = ResidualMLP(width, hidden_dims, motion.num_increments + num_events)
        torch.nn.init.constant_(self.network.last.bias[motion.num_increments :], _RARE)

    def forward(
        self,
        state: RobotState,
        targets: Tensor,
        context: Tensor,
        noise: Tensor | None = None,
    ) -> tuple[RobotState, Tensor]:
        """Returns the state at the end of the step, and the logits (..., E) of what happened in it.

        Args:
            state: (...).
            targets: (..., A) what the action terms make of the action.
            context: (..., C).
            noise: (..., D) added to the standardised inputs.
        """
        seen = self.inputs(self.join(state, targets, context))
        if noise is not None:
            seen = seen + noise
        output = self.network(seen).to(seen.dtype)
        changes = output[..., : self.motion.num_increments] * self.changes.std.to(seen.dtype)
        return self.motion.advance(state, changes), output[..., self.motion.num_increments :]

    def join(self, state: RobotState, targets: Tensor, context: Tensor) -> Tensor:
        """Returns what the network is shown (..., D), not yet standardised."""
        return torch.cat((self.motion.features(state), targets, context), dim=-1)
