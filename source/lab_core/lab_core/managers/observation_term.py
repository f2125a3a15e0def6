"""One observation term: from what its function returns to what the policy sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lab_core.managers.errors import TermError
from lab_core.managers.manager_base import TermCfg, check_range
from lab_core.state import Stateful

if TYPE_CHECKING:
    from lab_core.envs import RLEnv


@dataclass(kw_only=True)
class ObservationTermCfg(TermCfg):
    """``func(env, **params) -> (N, D)``, then clip and scale, in this order."""

    clip: tuple[float, float] | None = None
    """(low, high), before the scale."""
    scale: float | Sequence[float] | None = None
    """One factor, or one per component of the last axis."""


class ObservationPipeline(Stateful):
    """What follows the function of an observation term."""

    def __init__(self, cfg: ObservationTermCfg, value: torch.Tensor, what: str, env: RLEnv) -> None:
        self.cfg = cfg
        self._env = env
        self._what = what
        self._scale: torch.Tensor | None = None
        self._scale_values: tuple[float, ...] | None = None
        self.shape = tuple(self(value, update=False).shape[1:])

    _state_exclude = ("_scale",)

    def __call__(self, value: torch.Tensor, update: bool) -> torch.Tensor:
        """Processes a fresh value (N, D); the result may share its memory."""
        if self.cfg.clip is not None:
            value = value.clamp(*self.cfg.clip)
        return self._scaled(value)

    def reset(self, mask: torch.Tensor) -> None:
        """Forgets the episodes of the environments in ``mask`` (N,) bool."""

    def _scaled(self, value: torch.Tensor) -> torch.Tensor:
        scale = self.cfg.scale
        if scale is None:
            return value
        if isinstance(scale, (int, float)):
            return value * scale
        # A tensor made of Python numbers is copied to the device, and waited for: once per change, not per step.
        if self._scale is None or tuple(scale) != self._scale_values:
            if len(scale) != value.shape[-1]:
                raise TermError(f"{self._what}: scale has {len(scale)} values, the term has {value.shape[-1]}.")
            self._scale_values = tuple(scale)
            self._scale = torch.tensor(self._scale_values, device=value.device)
        return value * self._scale


def check_observation_cfg(cfg: ObservationTermCfg, what: str) -> None:
    """Raises :class:`TermError` for settings that no value can satisfy."""
    if cfg.clip is not None:
        check_range(cfg.clip, f"{what}: clip")
