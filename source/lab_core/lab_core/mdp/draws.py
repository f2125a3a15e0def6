"""Draws that events share."""

from __future__ import annotations

from functools import lru_cache

import torch

from lab_core.env import Env
from lab_core.errors import unknown_name_message
from lab_core.managers import TermError
from lab_core.managers.checks import check_range
from lab_core.sampling import uniform

_SIX = ("x", "y", "z", "roll", "pitch", "yaw")


def draw_six(env: Env, ranges: dict[str, tuple[float, float]], what: str) -> torch.Tensor:
    """Returns uniform draws (N, 6) from ranges by name: x, y, z, roll, pitch, yaw; missing ones are 0.

    Raises:
        TermError: ``what``, as messages call the ranges, has another name or an impossible range.
    """
    for key in ranges:
        if key not in _SIX:
            raise TermError(f"{what}: {unknown_name_message('component', key, _SIX)}")
        check_range(ranges[key], f"{what}[{key!r}]")
    low, high = _bounds(tuple(tuple(ranges.get(key, (0.0, 0.0))) for key in _SIX), env.device)
    return uniform(low, high, (env.num_envs, len(_SIX)), env.generator)


@lru_cache(maxsize=128)
def _bounds(ranges: tuple[tuple[float, float], ...], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Constants on the device, copied there once: the copy would wait for the device in every step."""
    low, high = torch.tensor(ranges, device=device).unbind(dim=1)
    return low, high
