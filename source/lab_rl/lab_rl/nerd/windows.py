"""Windows of consecutive physics steps, drawn and gathered where the data lie."""

from __future__ import annotations

import torch
from torch import Tensor

from lab_core.datasets import DatasetError
from lab_rl.nerd.physics_steps import PhysicsSteps


def window_starts(steps: PhysicsSteps, length: int) -> Tensor:
    """Returns the rows (W,) where ``length`` steps begin of which each ends where the next one begins.

    Raises:
        DatasetError: there is no such window.
    """
    breaks = torch.nn.functional.pad((~steps.joins).cumsum(0), (1, 0))  # before each row
    count = max(len(steps) - length + 1, 0)
    starts = (breaks[:count] == breaks[length - 1 :][:count]).nonzero()[:, 0]
    if not len(starts):
        raise DatasetError(f"No {length} recorded physics steps follow each other without a break.")
    return starts


class WindowSampler:
    """Draws windows at random, with replacement, from a stream of its own that can be saved.

    Args:
        steps: The data.
        length: Physics steps of a window.
        seed: Of the stream; ranks take different ones.
    """

    def __init__(self, steps: PhysicsSteps, length: int, seed: int) -> None:
        device = steps.q.device
        self.steps = steps
        self.starts = window_starts(steps, length)
        self._offsets = torch.arange(length, device=device)
        self._generator = torch.Generator(device).manual_seed(seed)

    def __len__(self) -> int:
        return len(self.starts)

    def draw(self, count: int) -> Tensor:
        """Returns rows (count, length) of :attr:`steps`."""
        chosen = torch.randint(len(self.starts), (count,), generator=self._generator, device=self.starts.device)
        return self.starts[chosen][:, None] + self._offsets

    def normal(self, shape: torch.Size) -> Tensor:
        """Returns numbers of ``shape`` from a standard normal distribution, out of the same stream."""
        return torch.randn(shape, generator=self._generator, device=self.starts.device)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns where the stream is."""
        return {"generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Puts the stream where :meth:`state_dict` found it."""
        self._generator.set_state(state["generator"].cpu())
