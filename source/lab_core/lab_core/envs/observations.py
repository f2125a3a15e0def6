"""What an environment shows to a policy."""

from __future__ import annotations

from typing import Any

import torch

from lab_core.masks import masked_copy_

Observations = dict[str, Any]
"""Group name -> tensor (N, D), or term name -> tensor for groups that are not concatenated."""


def copy_observations(observations: Observations) -> Observations:
    """Returns owned copies."""
    return {
        name: copy_observations(value) if isinstance(value, dict) else value.clone()
        for name, value in observations.items()
    }


def write_observations(target: Observations, source: Observations, mask: torch.Tensor | None = None) -> None:
    """Writes observations in place, or the rows of ``mask`` (N,) bool of them."""
    for name, value in source.items():
        if isinstance(value, dict):
            write_observations(target[name], value, mask)
        elif mask is None:
            target[name].copy_(value)
        else:
            masked_copy_(target[name], value, mask)
