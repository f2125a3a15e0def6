"""The learned dynamics: how velocities change over an environment step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lab_rl.supermimic.motion import RobotMotion
from lab_rl.supermimic.networks import ResidualMLP
from lab_rl.supermimic.normalizer import RunningNormalizer
from lab_rl.supermimic.state import RobotState


class WorldModel(torch.nn.Module):
    """Predicts the next state from state, joint targets and context. At first it predicts that velocities stay.

    Args:
        motion: What it sees and predicts.
        num_targets: A.
        num_context: C.
        hidden_dims: Widths of the hidden layers.
    """

    def __init__(self, motion: RobotMotion, num_targets: int, num_context: int, hidden_dims: Sequence[int]) -> None:
        super().__init__()
        self.motion = motion
        width = motion.num_features + num_targets + num_context
        self.inputs = RunningNormalizer(width)
        self.changes = RunningNormalizer(motion.num_increments, limit=None)
        """Statistics of increments; only their standard deviation scales predictions, so that zero stays zero."""
        self.network = ResidualMLP(width, hidden_dims, motion.num_increments)

    def forward(
        self,
        state: RobotState,
        targets: Tensor,
        context: Tensor,
        noise: Tensor | None = None,
    ) -> RobotState:
        """Returns the state at the end of the step.

        Args:
            state: (...).
            targets: (..., A) what the action terms make of the action.
            context: (..., C).
            noise: (..., D) added to the standardised inputs.
        """
        seen = self.inputs(self.join(state, targets, context))
        if noise is not None:
            seen = seen + noise
        increments = self.network(seen).to(seen.dtype) * self.changes.std.to(seen.dtype)
        return self.motion.advance(state, increments)

    def join(self, state: RobotState, targets: Tensor, context: Tensor) -> Tensor:
        """Returns what the network is shown (..., D), not yet standardised."""
        return torch.cat((self.motion.features(state), targets, context), dim=-1)
