"""When timers that are counted down step by step run out."""

from __future__ import annotations

import torch

SLACK = 0.05
"""Share of a step by which a timer may run out early. A time that is a whole number of steps must not miss its step,
and its float32 drifts by the rounding of every step: by 1 % of a step in 5 s at 50 Hz."""


def ran_out(time_left: torch.Tensor, dt: float) -> torch.Tensor:
    """Returns where timers [s] have run out that were counted down by ``dt`` [s] just now."""
    return time_left <= SLACK * dt
