"""What the latest step of an environment handed on and returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from lab_core.envs.observations import Observations
from lab_core.read_only import ReadOnlyDict

_HOW_TO_LOG = (
    "env.extras is what the latest step returned, and what a term writes into it would be lost. To log a value, return "
    "it from a metric (cfg.metrics), a curriculum term (cfg.curriculum) or, in a direct environment, _reset_buffers."
)


@dataclass
class LatestStep:
    """What the stages of a step hand on, and its caller is given; every step writes it anew, so it is no state."""

    actions: torch.Tensor = field(default_factory=lambda: torch.zeros(0))
    """(N, A) that was handed over."""
    reset_ids: torch.Tensor | None = None
    """Indices of the environments that are reset, once somebody asked for them."""
    observations: Observations = field(default_factory=dict)
    final_obs: Observations = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=lambda: {"log": {}})

    def read_only_extras(self) -> Mapping[str, Any]:
        """Returns :attr:`extras`, which refuse to be written and say how to log instead."""
        log = ReadOnlyDict(self.extras["log"], _HOW_TO_LOG)
        return ReadOnlyDict({**self.extras, "log": log}, _HOW_TO_LOG)
